import type { ProvenanceReader } from '#shared/chain/reading/payer-provenance.ts'
import { AppError } from '#shared/errors/app-error.ts'
import type { Acceptance } from '#shared/ledger/acceptance/acceptance.ts'
import { type AtomicAmount, dollarsFromAtomic } from '#shared/money/atomic-amount.ts'

/** Calls settle within seconds, so some are settled by the time of the retry. */
export const OPEN_WORK_RETRY_SECONDS = 2

/** Of Base, in seconds. */
const BLOCK_TIME_SECONDS = 2

/** What is said of the limit of losses, by whom it stops. */
export const NEW_PAYER_LIMITS = {
  network:
    'Payments from your network that are not covered by earlier ones of their payers have too much in progress or unpaid. Nothing was charged; retry after the delay in Retry-After, or pay smaller calls first.',
  all: 'Payments that are not covered by earlier ones of their payers have too much in progress or unpaid at the moment. Nothing was charged; retry after the delay in Retry-After, or pay smaller calls first.',
} as const

type ExposureRefusal = Extract<
  Acceptance,
  { outcome: 'exceeds_funds' | 'exceeds_open_limit' | 'exceeds_trust' | 'unpaid_debt' | 'sender_owes' }
>

/** Creates the error of a payer who has too much open, or owes for earlier work. */
export function exposureError(refusal: ExposureRefusal, maximumOpen: AtomicAmount): AppError {
  const retry = { retryAfterSeconds: OPEN_WORK_RETRY_SECONDS }
  switch (refusal.outcome) {
    case 'unpaid_debt':
      return new AppError('unpaid_debt', {
        message: `An earlier call of this payer is completed but unpaid. First repeat the request with x-idempotency-key "${refusal.idempotencyKey}" and a fresh payment (${dollarsFromAtomic(refusal.chargeAmount)} USDC).`,
      })
    case 'sender_owes':
      return new AppError('sender_owes_debt', {
        message: `This payment needs USDC that came from ${refusal.sender}, which owes ${dollarsFromAtomic(refusal.debt)} USDC for an earlier call. Pay with other money, or pay that debt first. Nothing was charged.`,
      })
    case 'exceeds_funds':
      return new AppError('funds_reserved', {
        ...retry,
        message: `${dollarsFromAtomic(refusal.openTotal)} USDC of the payer’s balance or Permit2 allowance is reserved for other calls in progress. Retry when they have settled, or add funds.`,
      })
    case 'exceeds_open_limit':
      return new AppError('open_exposure_limit', {
        ...retry,
        message: `The payer’s calls in progress amount to ${dollarsFromAtomic(refusal.openTotal)} USDC; at most ${dollarsFromAtomic(maximumOpen)} USDC may be open. Retry when some have settled.`,
      })
    case 'exceeds_trust': {
      const lost =
        refusal.lost > 0n
          ? ` and those of the last day without a charge to ${dollarsFromAtomic(refusal.lost)} USDC`
          : ''
      return new AppError('open_exposure_limit', {
        retryAfterSeconds: refusal.retryAfterSeconds,
        message: `The payer’s calls in progress amount to ${dollarsFromAtomic(refusal.open)} USDC${lost}; with what the payer has paid so far, at most ${dollarsFromAtomic(refusal.allowed)} USDC may be open, and more with every call that is paid. Nothing was charged. Retry in ${refusal.retryAfterSeconds} seconds.`,
      })
    }
  }
}

/** Creates the error of a payer whose money is too new; `balance` is what was there before. */
export function unprovenFundsError(
  { blocks }: Pick<ProvenanceReader, 'blocks'>,
  needed: AtomicAmount,
  balance: AtomicAmount | null,
): AppError {
  const seconds = blocks * BLOCK_TIME_SECONDS
  // The node may know the next block a little later.
  const retryAfterSeconds = seconds + BLOCK_TIME_SECONDS
  const had = balance === null ? 'less' : `${dollarsFromAtomic(balance)} USDC`
  return new AppError('funds_too_new', {
    retryAfterSeconds,
    message: `The payer had ${had} ${seconds} seconds ago; ${dollarsFromAtomic(needed)} USDC are needed for this call and those in progress. A payer who has paid less than that so far needs the money for as long. Nothing was charged; retry in ${retryAfterSeconds} seconds.`,
  })
}
