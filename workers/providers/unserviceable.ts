import type { ProviderFailure } from './provider.ts'

/**
 * A `provider_unavailable` that concerns this request only: the deployment works but does not support what was
 * requested, and another may.
 */
export interface UnserviceableRequest extends ProviderFailure {
  readonly certainty: 'definite'
  readonly code: 'provider_unavailable'
  readonly concerns: 'request'
}

/** Creates the failure. `reason` is as in `ProviderFailure`: it never contains input, output or the key. */
export function unserviceable(reason: string): UnserviceableRequest {
  return { outcome: 'failed', certainty: 'definite', code: 'provider_unavailable', concerns: 'request', reason }
}

/**
 * Returns the refusal of a request with fields that an adapter does not send, or `null` if there are none: what changes
 * the output is never left out silently.
 */
export function refuseUnsent(fields: object): UnserviceableRequest | null {
  const names = Object.keys(fields)
  return names.length === 0 ? null : unserviceable(`not sent: this API has no ${names.join(', ')}`)
}

export function isUnserviceable(failure: ProviderFailure): boolean {
  return failure.code === 'provider_unavailable' && failure.concerns === 'request' && failure.isSetupFault !== true
}
