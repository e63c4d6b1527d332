import { reasonOf } from '../wire/ask-service.ts'
import { FareboxError } from '../wire/farebox-error.ts'
import { AnswerTooLarge, type HttpAnswer, readAnswer } from '../wire/http-answer.ts'
import { NoAnswer, WatchedBlob, watchSilence } from '../wire/no-answer.ts'
import type { PaidCall, PaymentContext } from './paid-call.ts'
import type { SignedPayment } from './sign-payment.ts'

/**
 * Sends the call once: with its payment, or for its challenge. Throws `FareboxError` if no whole answer arrives, `NoAnswer` if
 * nothing moves for as long as is allowed. What the body throws is thrown before anything is sent.
 */
export async function sendCall(
  { fetch }: Pick<PaymentContext, 'fetch'>,
  call: PaidCall,
  payment: SignedPayment | null,
  allowedMs: number,
): Promise<HttpAnswer> {
  const { signal, priceFirst } = call
  const request =
    payment === null && priceFirst !== undefined ? priceRequest(call, priceFirst) : await callRequest(call, payment)
  const silence = watchSilence(allowedMs)
  try {
    signal?.throwIfAborted()
    const signals = signal === undefined ? silence.signal : AbortSignal.any([signal, silence.signal])
    const init = { ...request.init, ...redirectsOf(request.init), signal: signals }
    if (init.body instanceof Blob) init.body = new WatchedBlob(init.body, silence.broken)
    return await readAnswer(await fetch(request.url, init), silence.broken)
  } catch (cause) {
    if (silence.signal.aborted && signal?.aborted !== true)
      throw new NoAnswer(request.url, allowedMs, payment === null ? 'none' : 'unknown')
    throw lost(call, payment, cause)
  } finally {
    silence.end()
  }
}

/**
 * A payment must not be sent on, so a redirect is an answer like any other. For a recording it is an error: Node's fetch
 * otherwise keeps all that it sends in memory, for another request that is never made.
 */
function redirectsOf({ body }: RequestInit): RequestInit {
  return body instanceof Blob ? { redirect: 'error', window: null } : { redirect: 'manual' }
}

function lost({ url, signal }: PaidCall, payment: SignedPayment | null, cause: unknown): FareboxError {
  const isAborted = signal?.aborted === true
  const [code, problem] = isAborted
    ? ['aborted', 'The call was interrupted.']
    : cause instanceof AnswerTooLarge
      ? ['answer_too_large', `The answer from ${new URL(url).origin} is larger than any result.`]
      : reasonOf(cause) === 'unexpected redirect'
        ? ['redirected', `${new URL(url).origin} answered with a redirect, which is not followed.`]
        : ['connection_lost', `No complete answer arrived from ${new URL(url).origin} (${reasonOf(cause)}).`]
  return new FareboxError({
    code,
    problem,
    money: payment === null ? 'none' : 'unknown',
    advice: 'Repeat the call with the same key: it is charged at most once.',
    cause,
  })
}

interface HttpRequest {
  readonly url: string
  readonly init: RequestInit
}

function priceRequest({ key }: PaidCall, { url, body }: NonNullable<PaidCall['priceFirst']>): HttpRequest {
  return {
    url,
    init: { method: 'POST', headers: { 'content-type': 'application/json', 'x-idempotency-key': key }, body },
  }
}

async function callRequest(call: PaidCall, payment: SignedPayment | null): Promise<HttpRequest> {
  const headers = {
    ...call.headers,
    'x-idempotency-key': call.key,
    ...(payment === null ? {} : { 'payment-signature': payment.header }),
  }
  return { url: call.url, init: { method: 'POST', headers, body: await call.body() } }
}

const PRICE_WITHIN_MS = 30_000
/** How long most paid calls take. */
export const ANSWER_WITHIN_MS = 45_000
/** Services hold a call for 280 s unless their operator says otherwise, and Node's fetch ends one of 300 s. */
export const LONGEST_SILENCE_MS = 290_000

/**
 * Returns how long nothing may move before the call is sent again. The service computes a price within seconds. It
 * answers a paid call when the work is done, at the latest when it has held the connection for its maximum; the same
 * payment, sent again earlier, takes part in the same work. So the first silence is short, and each one twice as long.
 */
export function allowedSilence(
  { now }: Pick<PaymentContext, 'now'>,
  { answerWithinMs }: Pick<PaidCall, 'answerWithinMs'>,
  { payment, unanswered }: { readonly payment: SignedPayment | null; readonly unanswered: number },
): number {
  if (payment === null) return PRICE_WITHIN_MS
  const allowed = (answerWithinMs ?? ANSWER_WITHIN_MS) * 2 ** unanswered
  const untilDeadline = Math.max(payment.deadline - now(), ANSWER_WITHIN_MS)
  return Math.min(allowed, untilDeadline, LONGEST_SILENCE_MS)
}
