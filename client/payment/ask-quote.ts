import { FareboxError } from '../wire/farebox-error.ts'
import { readAnswer } from '../wire/http-answer.ts'
import type { Quote } from '../wire/schemas.ts'
import { readServiceError } from '../wire/service-error.ts'
import type { AudioClaim, Operation } from './operations.ts'

/** A request to price: that of the operation's endpoint; a recording may be described instead of sent. */
export interface QuoteRequest {
  readonly operation: Operation
  readonly request: Readonly<Record<string, unknown>> & { readonly audio?: AudioClaim }
  readonly signal?: AbortSignal
}

/** Asks for the maximum price of a request. Nothing is bound and nothing is signed. */
export async function askQuote(
  fetch: typeof globalThis.fetch,
  baseUrl: string,
  { operation, request, signal }: QuoteRequest,
): Promise<Quote> {
  const url = new URL('/v1/quotes', baseUrl).href
  const headers = { 'content-type': 'application/json' }
  const body = JSON.stringify({ operation, request })
  const answer = await fetch(url, { method: 'POST', headers, body, redirect: 'error', ...(signal ? { signal } : {}) })
    .then(readAnswer)
    .catch((cause: unknown) => {
      throw new FareboxError({
        code: signal?.aborted === true ? 'aborted' : 'connection_lost',
        problem: `No price arrived from ${new URL(baseUrl).origin}.`,
        money: 'none',
        advice: 'Check the URL of the service and the network, then repeat the request.',
        cause,
      })
    })
  if (answer.status !== 200) throw readServiceError(answer, false)
  return JSON.parse(new TextDecoder().decode(answer.body)) as Quote
}
