import type { HttpOutcome, SendHttp } from './http.ts'
import type { CallOptions } from './provider.ts'
import { readJson } from './wire-fields.ts'

/**
 * What a vendor says about the model of a deployment:
 *
 * - `listed`: it has the model, with the announced time of its retirement. `missingVoices` are the upstream voices of
 *   the deployment that the account does not have, if the vendor was asked for them.
 * - `missing`: it answered, and has no such model.
 * - `unknown`: it did not answer, refuses the key (perhaps only for listings), or does not list models of this kind.
 */
export type ModelStatus =
  | { readonly outcome: 'listed'; readonly retiresAt?: Date; readonly missingVoices?: readonly string[] }
  | { readonly outcome: 'missing' }
  | { readonly outcome: 'unknown'; readonly reason: string; readonly refusesKey?: true }

/** Asks the vendor for the model, which costs nothing. Never throws. */
export type LookUpModel = (voices: readonly string[], options: CallOptions) => Promise<ModelStatus>

/** OpenRouter, with hundreds of described models, sends less than 1 MiB. */
const MAXIMUM_RESPONSE_BYTES = 4 * 1024 * 1024

export interface Listing {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly http: SendHttp
}

/** Sends one GET request of a look-up. */
export function getListing({ url, headers, http }: Listing, options: CallOptions): Promise<HttpOutcome> {
  return http({ method: 'GET', url, headers }, { ...options, maximumResponseBytes: MAXIMUM_RESPONSE_BYTES })
}

/** Returns the JSON of an answer, or `undefined` when there is none. */
export function listingJson(exchange: HttpOutcome, status = 200): unknown {
  return exchange.outcome === 'response' && exchange.status === status ? readJson(exchange.bytes) : undefined
}

/** Creates the status for an answer that says nothing about the model. */
export function unknownStatus(exchange: HttpOutcome): ModelStatus {
  if (exchange.outcome !== 'response') return { outcome: 'unknown', reason: exchange.reason }
  const refusesKey = exchange.status === 401 || exchange.status === 403
  return { outcome: 'unknown', reason: `HTTP ${exchange.status}`, ...(refusesKey ? { refusesKey } : {}) }
}

/** Reads an announced date or time; anything else counts as not announced. */
export function announcedTime(text: string | null | undefined): { retiresAt?: Date } {
  const time = new Date(text ?? '')
  return Number.isNaN(time.getTime()) ? {} : { retiresAt: time }
}
