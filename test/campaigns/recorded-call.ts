import { randomUUID } from 'node:crypto'
import { decodePaymentResponseHeader } from '@x402/core/http'
import { sha256Hex } from '#shared/digests/canonical-json.ts'
import { callRpc } from '../../infra/sandbox/json-rpc.ts'
import type { CallRequest } from './call-requests.ts'
import type { CallerAnswer, CallRecord } from './checker/ledgers.ts'

/** The record of a call that begins now. */
export function newCallRecord({ path, marker }: CallRequest, payer: string): CallRecord {
  return {
    callId: randomUUID(),
    idempotencyKey: randomUUID(),
    path,
    marker,
    payer: payer.toLowerCase(),
    answers: [],
    nonces: [],
    outcome: null,
    unpayableSince: null,
  }
}

/** Reads an answer to the end and writes down what it was; a success is compared with the chain at once. Throws when it is cut. */
export async function readCallerAnswer(response: Response, rpcUrl: string): Promise<CallerAnswer> {
  const bytes = Buffer.from(await response.arrayBuffer())
  const receivedAt = Date.now()
  const isText = response.headers.get('content-type')?.startsWith('application/json') ?? false
  const payment = response.headers.get('payment-response')
  const settled = response.status === 200 && payment !== null ? decodePaymentResponseHeader(payment) : null
  return {
    receivedAt,
    status: response.status,
    code: response.status === 200 ? null : errorCodeOf(bytes),
    bodySha256: sha256Hex(bytes),
    bodyText: isText ? bytes.toString('utf8') : null,
    receiptId: response.headers.get('x-receipt-id'),
    transaction: settled === null ? null : settled.transaction.toLowerCase(),
    amount: settled?.amount ?? null,
    wasMined: settled ? await isMined(rpcUrl, settled.transaction) : null,
  }
}

async function isMined(rpcUrl: string, hash: string): Promise<boolean | null> {
  if (hash === '') return null
  try {
    const receipt = await callRpc<{ status: string } | null>(rpcUrl, 'eth_getTransactionReceipt', [hash])
    return receipt?.status === '0x1'
  } catch {
    return null
  }
}

function errorCodeOf(bytes: Buffer): string | null {
  try {
    const body = JSON.parse(bytes.toString('utf8')) as { error?: { code?: string }; code?: string }
    return body.error?.code ?? body.code ?? null
  } catch {
    return null
  }
}
