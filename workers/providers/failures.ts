import type { HttpOutcome } from './http.ts'
import type { ProviderFailure } from './provider.ts'

/** Creates the failure of a call that the vendor may have worked on, without a usable result. */
export function unknownOutcome(reason: string): ProviderFailure {
  return { outcome: 'failed', certainty: 'ambiguous', code: 'provider_outcome_unknown', reason }
}

/** Creates the failure of an input that any deployment would reject. */
export function rejected(reason: string): ProviderFailure {
  return { outcome: 'failed', certainty: 'definite', code: 'provider_rejected', reason }
}

/**
 * Creates the failure of a rejected request whose cause is unknown, such as most 400s, which no vendor bills. The next
 * deployment may be tried once: vendors reject with the same statuses what only their own models do not support.
 */
export function rejectedByDeployment(reason: string): ProviderFailure {
  return { ...rejected(reason), rejectedBy: 'deployment' }
}

/**
 * Creates the failure of a request that the deployment cannot serve because of its setup, such as a voice that its
 * account does not have. Other requests succeed, so its circuit stays closed, and the caller is not at fault.
 */
export function misconfigured(reason: string): ProviderFailure {
  return { ...unserviceable(reason), isSetupFault: true }
}

/** Creates the failure of a call whose upstream model was shut down. */
export function gone(reason: string): ProviderFailure {
  return { ...unavailable(reason), isGone: true }
}

/** Creates the failure of a call that the vendor worked on and completed without usable output, with the usage it reports. */
export function emptyOutput(reason: string, usage?: ProviderFailure['usage']): ProviderFailure {
  const failure = { outcome: 'failed', certainty: 'empty', code: 'provider_empty_output', reason } as const
  return usage === undefined ? failure : { ...failure, usage }
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
 * Statuses caused by the key, the account, the URL or the load; another deployment may accept the same input. A 405 comes from what
 * knows the path and not POST on it (RFC 9110, 15.5.6), such as a web server behind a wrong base URL, and at Cloudflare from models
 * (developers.cloudflare.com/workers-ai/platform/errors, read on 1 December 2026).
 */
const DEPLOYMENT_REJECTIONS: ReadonlySet<number> = new Set([401, 402, 403, 404, 405, 429])

/** Returns the failure for a status that means the same at every vendor, before any work; `undefined` for any other. */
export function failureOfStatus(status: number, reason: string): ProviderFailure | undefined {
  if (DEPLOYMENT_REJECTIONS.has(status)) return unavailable(reason)
  if (status === 410) return gone(reason)
  return status === 413 ? unserviceable(reason) : undefined
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
  // The headers of a stream arrive before its first output, those of a whole answer with it.
  const isArriving = exchange.status !== undefined && exchange.streamed !== 'waiting'
  return { ...failure, timedOut: true, ...(isArriving ? { concerns: 'request' } : {}) }
}

const SECONDS = /^\d{1,5}(?:\.\d{1,12})?$/
const HTTP_DATE = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} [\d:]{8} GMT$/

/**
 * Reads `retry-after` in seconds, or as a date (RFC 9110, 10.2.3); parts of seconds, which proxies and some vendors send
 * (teng-lin/notebooklm-py#1275, lidge-jun/opencodex#4046, read on 1 December 2026), are rounded up.
 */
export function retryAfter(headers: Headers): { retryAfterSeconds?: number } {
  const value = headers.get('retry-after') ?? ''
  if (SECONDS.test(value)) return { retryAfterSeconds: Math.ceil(Number(value)) }
  const waitMs = HTTP_DATE.test(value) ? Date.parse(value) - Date.now() : Number.NaN
  return waitMs >= 0 && waitMs < 100_000_000 ? { retryAfterSeconds: Math.ceil(waitMs / 1000) } : {}
}

/**
 * Creates the failure of a request that the deployment does not support although it works; another may.
 * `reason` is as in `ProviderFailure`: it never contains input, output or the key.
 */
export function unserviceable(reason: string): ProviderFailure {
  return { ...unavailable(reason), concerns: 'request' }
}

/**
 * Returns the refusal of a request with fields that an adapter does not send, or `null` if there are none: what changes
 * the output is never left out silently.
 */
export function refuseUnsent(fields: object): ProviderFailure | null {
  const names = Object.keys(fields)
  return names.length === 0 ? null : unserviceable(`not sent: this API has no ${names.join(', ')}`)
}

export function isUnserviceable(failure: ProviderFailure): boolean {
  return failure.code === 'provider_unavailable' && failure.concerns === 'request' && failure.isSetupFault !== true
}
