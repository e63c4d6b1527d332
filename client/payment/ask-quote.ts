import { askForJson, type ServiceAccess } from '../wire/ask-service.ts'
import type { Quote } from '../wire/schemas.ts'
import type { AudioClaim, Operation } from './operations.ts'

/** A request to price: that of the operation's endpoint; a recording may be described instead of sent. */
export interface QuoteRequest {
  readonly operation: Operation
  readonly request: Readonly<Record<string, unknown>> & { readonly audio?: AudioClaim }
  readonly signal?: AbortSignal
}

/** Asks for the maximum price of a request. Nothing is bound and nothing is signed. */
export async function askQuote(
  access: ServiceAccess,
  baseUrl: string,
  { operation, request, signal }: QuoteRequest,
): Promise<Quote> {
  return await askForJson<Quote>(access, new URL('/v1/quotes', baseUrl).href, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ operation, request }),
    signal,
  })
}
