import { AppError } from '#shared/errors/app-error.ts'
import type { Acceptance } from '#shared/ledger/acceptance/acceptance.ts'
import { type AtomicAmount, dollarsFromAtomic } from '#shared/money/atomic-amount.ts'

/** Calls settle within seconds, so some are settled by the time of the retry. */
export const OPEN_WORK_RETRY_SECONDS = 2

/** What is said of the limit of losses, by whom it stops. */
export const NEW_PAYER_LIMITS = {
  network:
    'Payments from your network that are not covered by earlier ones of their payers have too much in progress or unpaid. Nothing was charged; retry after the delay in Retry-After, or pay smaller calls first.',
  all: 'Payments that are not covered by earlier ones of their payers have too much in progress or unpaid at the moment. Nothing was charged; retry after the delay in Retry-After, or pay smaller calls first.',
} as const

type ExposureRefusal = Extract<
  Acceptance,
  { outcome: 'exceeds_funds' | 'exceeds_open_limit' | 'exceeds_trust' | 'unpaid_debt' }
>

/** Creates the error of a payer who has too much open, or owes for earlier work. */
export function exposureError(refusal: ExposureRefusal, maximumOpen: AtomicAmount): AppError {
  const retry = { retryAfterSeconds: OPEN_WORK_RETRY_SECONDS }
  switch (refusal.outcome) {
    case 'unpaid_debt':
      return new AppError('unpaid_debt', {
        message: `An earlier call of this payer is completed but unpaid. First repeat the request with x-idempotency-key "${refusal.idempotencyKey}" and a fresh payment (${dollarsFromAtomic(refusal.chargeAmount)} USDC).`,
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
