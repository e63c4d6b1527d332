import type { ProviderFailure } from './provider.ts'

/**
 * A `provider_unavailable` that says something of this one request only: the deployment works, and cannot do what was asked.
 * Another deployment may. It is not held against the deployment's health, or a caller could take it out of service by asking.
 */
export interface UnserviceableRequest extends ProviderFailure {
  readonly certainty: 'definite'
  readonly code: 'provider_unavailable'
  readonly concerns: 'request'
}

/** `reason` as in `ProviderFailure`: it never holds input, output or key. */
export function unserviceable(reason: string): UnserviceableRequest {
  return { outcome: 'failed', certainty: 'definite', code: 'provider_unavailable', concerns: 'request', reason }
}

export function isUnserviceable(failure: ProviderFailure): boolean {
  return 'concerns' in failure && failure.concerns === 'request'
}
