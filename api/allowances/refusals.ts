import type { AllowanceReading } from '#shared/chain/allowance/read-owner.ts'
import { AppError } from '#shared/errors/app-error.ts'
import type { AllowanceFailureCode } from '#shared/ledger/allowances/finish-allowance.ts'
import type { AllowanceRequest } from '#shared/ledger/allowances/request-allowance.ts'
import type { SponsoringLimits } from '#shared/ledger/allowances/sponsoring-limits.ts'
import { atomicAmount, dollarsFromAtomic } from '#shared/money/atomic-amount.ts'

type Limited = Extract<AllowanceRequest, { outcome: 'owner_limit' | 'ceiling_reached' }>

/** Returns the error of a chain that cannot be read. */
export function chainUnreachable(cause: unknown): AppError {
  const message = 'The payment network is unreachable. Nothing was sent; retry shortly.'
  return new AppError('payment_network_unavailable', { message, cause })
}

/** Returns why an owner's permit is not sponsored, or `null`. */
export function findOwnerRefusal(
  { hasCode, balance }: Pick<AllowanceReading, 'hasCode' | 'balance'>,
  { minimumBalance }: Pick<SponsoringLimits, 'minimumBalance'>,
): AppError | null {
  if (hasCode) return new AppError('owner_has_code')
  if (balance >= minimumBalance) return null
  const [has, needed] = [dollarsFromAtomic(atomicAmount(balance)), dollarsFromAtomic(atomicAmount(minimumBalance))]
  return new AppError('owner_balance_too_low', {
    message: `The owner has ${has} USDC; an allowance is sponsored from ${needed} USDC. Add funds first, or pay each call with a permit.`,
  })
}

/** Returns the error of a limit on what the service spends. */
export function limitError({ outcome, retryAfterSeconds }: Limited): AppError {
  return new AppError(outcome === 'owner_limit' ? 'owner_allowance_limit' : 'sponsored_gas_limit', {
    retryAfterSeconds,
  })
}

/** Returns the error of a permit that ended without an allowance. */
export function failureError(code: AllowanceFailureCode, transaction: string | null): AppError {
  switch (code) {
    case 'permit_expired':
    case 'permit_rejected':
    case 'owner_has_code':
    case 'owner_balance_too_low':
      return new AppError(code)
    case 'permit_already_used':
      return new AppError('permit_invalid', {
        message:
          'The nonce of this permit was used in the meantime, and the allowance does not suffice. Sign a new one.',
      })
    case 'permit_reverted':
      return new AppError('permit_rejected', {
        message: `The permit was submitted in transaction ${transaction}, which reverted. No funds moved.`,
      })
    case 'gas_unavailable':
      if (transaction === null) return new AppError('sponsoring_unavailable')
      return new AppError('permit_rejected', {
        message: `The permit was given up because fees rose while it was pending; transaction ${transaction} took its place. No funds moved. Sign a new one: another deadline is enough.`,
      })
    case 'payment_network_unavailable':
      return chainUnreachable(undefined)
  }
}
