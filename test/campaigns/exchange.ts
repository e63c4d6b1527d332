import { decodePaymentResponseHeader } from '@x402/core/http'
import { z } from 'zod'
import { sha256Hex } from '#shared/digests/canonical-json.ts'
import { callRpc } from '../../infra/sandbox/json-rpc.ts'
import type { CallerAnswer, CallRecord } from './checker/ledgers.ts'

/** What tells a client to go on. Failures carry it in `error`, 402s at the top. */
const adviceSchema = z.looseObject({
  retry: z.enum(['never', 'same_request', 'new_payment']).optional(),
  code: z.string().optional(),
  error: z
    .union([
      z.string(),
      z.looseObject({
        retry: z.enum(['never', 'same_request', 'new_payment']).optional(),
        code: z.string().optional(),
      }),
    ])
    .optional(),
})

/** One request whose answer arrived whole. */
export interface Exchange {
  readonly answer: CallerAnswer
  readonly response: Response
  readonly advice: 'never' | 'same_request' | 'new_payment'
}

/** What is sent; `headers` carry the payment, once there is one. */
export interface SentCall {
  readonly record: CallRecord
  readonly body: string
  readonly headers: Record<string, string> | null
}

/** Sends a call once and looks at the chain as soon as an answer tells of a settlement; `null` when none arrived whole. */
export async function exchange(
  rpcUrl: string,
  { record, body, headers }: SentCall,
  baseUrl: string | undefined,
  signal?: AbortSignal,
): Promise<Exchange | null> {
  try {
    const response = await fetch(`${baseUrl}${record.path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-idempotency-key': record.idempotencyKey, ...headers },
      body,
      ...(signal ? { signal } : {}),
    })
    const text = await response.text()
    const answer = await describe(rpcUrl, response, text)
    return { answer, response, advice: adviceOf(response.status, text) }
  } catch (error) {
    // A connection that was refused or cut, or that this client gave up.
    if (error instanceof TypeError) return null
    if (error instanceof Error && ['AbortError', 'TimeoutError'].includes(error.name)) return null
    throw error
  }
}

async function describe(rpcUrl: string, response: Response, text: string): Promise<CallerAnswer> {
  const receivedAt = Date.now()
  const settlement = response.headers.get('payment-response')
  const { transaction = null, amount = null } = settlement === null ? {} : decodePaymentResponseHeader(settlement)
  return {
    receivedAt,
    status: response.status,
    code: response.status === 200 ? null : codeOf(text),
    bodySha256: sha256Hex(text),
    bodyText: text,
    receiptId: response.headers.get('x-receipt-id'),
    transaction,
    amount,
    wasMined: transaction === null || transaction === '' ? null : await wasMined(rpcUrl, transaction),
  }
}

async function wasMined(rpcUrl: string, hash: string): Promise<boolean | null> {
  try {
    const receipt = await callRpc<{ status: string } | null>(rpcUrl, 'eth_getTransactionReceipt', [hash])
    return receipt?.status === '0x1'
  } catch {
    return null
  }
}

function readAdvice(text: string): z.infer<typeof adviceSchema> | null {
  try {
    return adviceSchema.parse(JSON.parse(text))
  } catch {
    return null
  }
}

function codeOf(text: string): string | null {
  const advice = readAdvice(text)
  const error = advice?.error
  return (typeof error === 'object' ? error.code : undefined) ?? advice?.code ?? null
}

function adviceOf(status: number, text: string): Exchange['advice'] {
  const advice = readAdvice(text)
  const error = advice?.error
  const given = (typeof error === 'object' ? error.retry : undefined) ?? advice?.retry
  if (given !== undefined) return given
  return status >= 500 || status === 429 ? 'same_request' : 'never'
}
