import type { Acceptance } from '#shared/jobs/admission-store.ts'

/** Thrown to roll back the claim of a payment that cannot be accepted; never leaves this folder. */
export class AcceptanceRefused extends Error {
  readonly acceptance: Acceptance

  constructor(acceptance: Acceptance) {
    super(acceptance.outcome)
    this.acceptance = acceptance
  }
}
