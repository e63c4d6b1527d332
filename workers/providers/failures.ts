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

/** Creates the failure of a call that the vendor worked on and completed without usable output. */
export function emptyOutput(reason: string): ProviderFailure {
  return { outcome: 'failed', certainty: 'empty', code: 'provider_empty_output', reason }
}

/** Creates the failure of a call whose generated output the vendor's safety system withheld; it would do so again. */
export function withheldOutput(reason: string): ProviderFailure {
  return { outcome: 'failed', certainty: 'empty', code: 'provider_rejected', reason }
}

/** Creates the failure of a call without billable work; another deployment may be called. */
export function unavailable(reason: string): ProviderFailure {
  return { outcome: 'failed', certainty: 'definite', code: 'provider_unavailable', reason }
}

/**
 * Returns the failure of an exchange without a response; the same for every vendor. A time limit that ended the call
 * while output was arriving was too short for what this request asked for.
 */
export function failureWithoutResponse(exchange: Exclude<HttpOutcome, { outcome: 'response' }>): ProviderFailure {
  if (exchange.outcome === 'not_sent') return unavailable(`not sent: ${exchange.reason}`)
  const status = exchange.status === undefined ? '' : `HTTP ${exchange.status}, `
  const failure = unknownOutcome(`${status}${exchange.reason}`)
  if (exchange.timedOut !== true) return failure
  return { ...failure, timedOut: true, ...(exchange.status === undefined ? {} : { concerns: 'request' }) }
}

/** Reads `retry-after` in whole seconds; the date form is ignored. */
export function retryAfter(headers: Headers): { retryAfterSeconds?: number } {
  const value = headers.get('retry-after')
  return value !== null && /^\d{1,5}$/.test(value) ? { retryAfterSeconds: Number(value) } : {}
}
