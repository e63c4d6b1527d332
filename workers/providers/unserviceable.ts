import type { ProviderFailure } from './provider.ts'

/**
 * A `provider_unavailable` that concerns this request only: the deployment works but does not support what was
 * requested, and another may. It does not count against the deployment's health, or callers could take it out of
 * service.
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

export function isUnserviceable(failure: ProviderFailure): boolean {
  return 'concerns' in failure && failure.concerns === 'request'
}
