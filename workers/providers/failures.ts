import type { HttpOutcome } from './http.ts'
import type { ProviderFailure } from './provider.ts'

/** The vendor may have worked; nothing usable came of it. */
export function unknownOutcome(reason: string): ProviderFailure {
  return { outcome: 'failed', certainty: 'ambiguous', code: 'provider_outcome_unknown', reason }
}

/** The same input would be refused again. */
export function rejected(reason: string): ProviderFailure {
  return { outcome: 'failed', certainty: 'definite', code: 'provider_rejected', reason }
}

/** The vendor worked and gave nothing that can be sold. */
export function emptyOutput(reason: string): ProviderFailure {
  return { outcome: 'failed', certainty: 'definite', code: 'provider_empty_output', reason }
}

/** The vendor certainly did no billable work; another deployment may be called. */
export function unavailable(reason: string): ProviderFailure {
  return { outcome: 'failed', certainty: 'definite', code: 'provider_unavailable', reason }
}

/** The failure of an exchange that brought no answer; the same for every vendor. */
export function failureWithoutAnswer(exchange: Exclude<HttpOutcome, { outcome: 'response' }>): ProviderFailure {
  if (exchange.outcome === 'not_sent') return unavailable(`not sent: ${exchange.reason}`)
  const status = exchange.status === undefined ? '' : `HTTP ${exchange.status}, `
  return unknownOutcome(`${status}${exchange.reason}`)
}

/** `retry-after` in whole seconds; its form as a date is not heeded. */
export function retryAfter(headers: Headers): { retryAfterSeconds?: number } {
  const value = headers.get('retry-after')
  return value !== null && /^\d{1,5}$/.test(value) ? { retryAfterSeconds: Number(value) } : {}
}
