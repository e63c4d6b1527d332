import { z } from 'zod'
import type { CallerAnswer, CallRecord } from '../checker/ledgers.ts'
import { readCallerAnswer } from './recorded-call.ts'

/** Retry advice to a client. Failures have it in `error`, 402s at the top level. */
const adviceSchema = z.looseObject({
  retry: z.enum(['never', 'same_request', 'new_payment']).optional(),
  error: z
    .union([z.string(), z.looseObject({ retry: z.enum(['never', 'same_request', 'new_payment']).optional() })])
    .optional(),
})

/** A request whose answer arrived completely. */
export interface Exchange {
  readonly answer: CallerAnswer
  readonly response: Response
  readonly advice: 'never' | 'same_request' | 'new_payment'
}

/** The request; `headers` carry the payment, once there is one. */
export interface SentCall {
  readonly record: CallRecord
  readonly body: string
  readonly headers: Record<string, string> | null
}

/**
 * Sends a call once; compares an answer that reports a settlement with the chain. `null` when no answer arrived
 * completely.
 */
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
    const answer = await readCallerAnswer(response, rpcUrl)
    return { answer, response, advice: adviceOf(answer) }
  } catch (error) {
    // The connection was refused or broken, or this client aborted it.
    if (error instanceof TypeError) return null
    if (error instanceof Error && ['AbortError', 'TimeoutError'].includes(error.name)) return null
    throw error
  }
}

function readAdvice(text: string): z.infer<typeof adviceSchema> | null {
  try {
    return adviceSchema.parse(JSON.parse(text))
  } catch {
    return null
  }
}

function adviceOf({ status, bodyText }: CallerAnswer): Exchange['advice'] {
  const advice = readAdvice(bodyText ?? '')
  const error = advice?.error
  const given = (typeof error === 'object' ? error.retry : undefined) ?? advice?.retry
  if (given !== undefined) return given
  return status >= 500 || status === 429 ? 'same_request' : 'never'
}
