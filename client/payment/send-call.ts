import { FareboxError } from '../wire/farebox-error.ts'
import { type HttpAnswer, readAnswer } from '../wire/http-answer.ts'
import type { PaidCall, PaymentContext } from './paid-call.ts'
import type { SignedPayment } from './sign-payment.ts'

/** Sends the call once: with its payment, or for its challenge. Throws `FareboxError` if no whole answer arrives. */
export async function sendCall(
  { fetch }: Pick<PaymentContext, 'fetch'>,
  call: PaidCall,
  payment: SignedPayment | null,
): Promise<HttpAnswer> {
  const { signal, priceFirst } = call
  try {
    signal?.throwIfAborted()
    const request =
      payment === null && priceFirst !== undefined ? priceRequest(call, priceFirst) : await callRequest(call, payment)
    return await readAnswer(
      await fetch(request.url, { ...request.init, redirect: 'error', ...(signal ? { signal } : {}) }),
    )
  } catch (cause) {
    const isAborted = signal?.aborted === true
    throw new FareboxError({
      code: isAborted ? 'aborted' : 'connection_lost',
      problem: isAborted
        ? 'The call was interrupted.'
        : `No complete answer arrived from ${new URL(call.url).origin} (${reasonOf(cause)}).`,
      money: payment === null ? 'none' : 'unknown',
      advice: 'Repeat the call with the same key: it is charged at most once.',
      cause,
    })
  }
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

/** Node's `fetch` hides the reason in the cause. */
function reasonOf(error: unknown): string {
  const { cause } = error as { readonly cause?: unknown }
  if (cause instanceof Error && cause.message !== '') return cause.message
  return error instanceof Error ? error.message : String(error)
}
