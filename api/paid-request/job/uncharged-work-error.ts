import { AppError } from '#shared/errors/app-error.ts'
import { dollarsFromAtomic } from '#shared/money/atomic-amount.ts'
import { type ExhaustedBudget, UNCHARGED_KINDS, type UnchargedKind } from '#shared/payment/uncharged-budget.ts'

const KIND_NAMES: Record<UnchargedKind, string> = {
  empty_output: 'calls without usable output',
  unknown_outcome: 'calls with an unknown outcome',
  lost_call: 'calls that the service lost',
  rejected_request: 'rejected requests',
  replaced_result: 'results that were generated again',
  reverted_settlement: 'settlements that reverted',
}

/** Creates the 429 of a payer whose calls cost too much without a charge: what counted, and when to come back. */
export function unchargedWorkError({ used, allowed, byKind, retryAfterSeconds }: ExhaustedBudget): AppError {
  const kinds = UNCHARGED_KINDS.flatMap((kind) => {
    const amount = byKind[kind]
    return amount === undefined ? [] : [`${KIND_NAMES[kind]} ${dollarsFromAtomic(amount)}`]
  })
  return new AppError('uncharged_work_limit', {
    message: `Recent calls of this payer that ended without a charge count ${dollarsFromAtomic(used)} USDC (${kinds.join(', ')}); ${dollarsFromAtomic(allowed)} USDC are allowed. Nothing was charged. Retry in ${retryAfterSeconds} seconds; the allowance grows with what the payer pays.`,
    retryAfterSeconds,
  })
}
