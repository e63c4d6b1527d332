import type { HttpOutcome } from './http.ts'
import type { ProviderFailure } from './provider.ts'

/** Creates the failure of a call that the vendor may have worked on, without a usable result. */
export function unknownOutcome(reason: string): ProviderFailure {
  return { outcome: 'failed', certainty: 'ambiguous', code: 'provider_outcome_unknown', reason }
}

/** Creates the failure of an input that would be rejected again. */
export function rejected(reason: string): ProviderFailure {
  return { outcome: 'failed', certainty: 'definite', code: 'provider_rejected', reason }
}

/** Creates the failure of a call that the vendor completed without usable output. */
export function emptyOutput(reason: string): ProviderFailure {
  return { outcome: 'failed', certainty: 'definite', code: 'provider_empty_output', reason }
}

/** Creates the failure of a call without billable work; another deployment may be called. */
export function unavailable(reason: string): ProviderFailure {
  return { outcome: 'failed', certainty: 'definite', code: 'provider_unavailable', reason }
}

/** Returns the failure of an exchange without a response; the same for every vendor. */
export function failureWithoutResponse(exchange: Exclude<HttpOutcome, { outcome: 'response' }>): ProviderFailure {
  if (exchange.outcome === 'not_sent') return unavailable(`not sent: ${exchange.reason}`)
  const status = exchange.status === undefined ? '' : `HTTP ${exchange.status}, `
  return unknownOutcome(`${status}${exchange.reason}`)
}

/** Reads `retry-after` in whole seconds; the date form is ignored. */
export function retryAfter(headers: Headers): { retryAfterSeconds?: number } {
  const value = headers.get('retry-after')
  return value !== null && /^\d{1,5}$/.test(value) ? { retryAfterSeconds: Number(value) } : {}
}
