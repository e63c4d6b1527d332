import type { ClaimedJob } from '#shared/jobs/job.ts'
import type { Settler } from '#shared/payment/facilitator.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import type { Ending, StepOutcome } from '../../job/step-outcome.ts'

/** Delay before the next attempt while the chain cannot be reached or has not mined the transaction. */
const CHAIN_RETRY_MS = 1000

/**
 * Defers a charge that cannot be prepared, while no transaction can move money. If the node answers other reads of the
 * chain, the payment itself is the cause.
 */
export async function whileUnprepared(
  settler: Pick<Settler, 'readEvidence'>,
  { authorization }: ClaimedJob,
): Promise<StepOutcome> {
  const { outcome } = await settler.readEvidence(authorization, [])
  return outcome === 'read'
    ? later('the payment cannot be simulated', 'owe')
    : later('the payment network cannot be reached', 'withhold')
}

/** Defers a charge that no key of this process may send, which is the operator's to correct and never the payer's debt. */
export function whileNotListed(
  { logger }: { readonly logger: Logger },
  { id, authorization }: ClaimedJob,
): StepOutcome {
  logger.error('SETTLEMENT_CONTRACT: the contract lists none of the settlement keys', {
    jobId: id,
    facilitator: authorization.facilitator,
  })
  return later('the settlement contract lists none of the settlement keys', 'withhold')
}

export function later(reason: string, ending: Ending): StepOutcome {
  return { next: 'later', delayMs: CHAIN_RETRY_MS, reason, ending }
}
