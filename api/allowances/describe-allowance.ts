import type { z } from 'zod'
import type { AllowanceReading } from '#shared/chain/allowance/read-owner.ts'
import { AppError } from '#shared/errors/app-error.ts'
import { isAllowanceSufficient } from '#shared/payment/allowance-permit.ts'
import { lastingPermit, SUGGESTED_VALUE } from '../paid-request/payment/permit-terms.ts'
import type { allowanceStatusSchema } from '../schemas/allowances.ts'
import { findOwnerRefusal, limitError } from './refusals.ts'
import {
  type AllowanceDependencies,
  isFirstCallMissing,
  MINIMUM_DEADLINE_SECONDS,
  readOwner,
} from './request-allowance.ts'

type AllowanceStatus = z.infer<typeof allowanceStatusSchema>

/**
 * Describes what an owner may pay without a permit, whether the service would submit one for them now, and the message
 * to sign for it. Throws `payment_network_unavailable`.
 */
export async function describeAllowance(
  dependencies: AllowanceDependencies,
  owner: `0x${string}`,
  clientNetwork: string,
): Promise<AllowanceStatus> {
  const { terms, sponsoring, now } = dependencies
  const reading = await readOwner(dependencies, owner)
  const { allowance, balance, permitNonce: nonce, block, chainTime } = reading
  const maximum = allowance < balance ? allowance : balance
  const refusal = await findRefusal(dependencies, { owner, clientNetwork }, reading)
  const machineTime = BigInt(Math.floor(now().getTime() / 1000))
  const nowSeconds = chainTime > machineTime ? chainTime : machineTime
  return {
    object: 'allowance_status',
    network: terms.network as 'eip155:8453',
    asset: terms.asset,
    owner,
    spender: terms.permit2,
    allowance: allowance.toString(),
    balance_usdc_atomic: balance.toString(),
    permit_nonce: nonce.toString(),
    block: Number(block),
    pays_without_permit: maximum > 0n,
    maximum_without_permit: maximum.toString(),
    sponsoring: {
      available: refusal === null,
      reason: refusal?.code ?? null,
      message: refusal?.message ?? null,
      retry_after_seconds: refusal?.retryAfterSeconds ?? null,
      minimum_value: (sponsoring?.minimumBalance ?? 0n).toString(),
      minimum_deadline_seconds: MINIMUM_DEADLINE_SECONDS,
    },
    typed_data: lastingPermit(terms, { owner, nonce, nowSeconds }),
  }
}

/** Returns why the suggested permit would not be submitted now, or `null`. Only its simulation is left out. */
async function findRefusal(
  { store, sponsoring }: AllowanceDependencies,
  { owner, clientNetwork }: { readonly owner: `0x${string}`; readonly clientNetwork: string },
  reading: AllowanceReading,
): Promise<AppError | null> {
  if (sponsoring === null) return new AppError('sponsoring_disabled')
  const refusal = findOwnerRefusal(reading, sponsoring)
  // A permit would be answered without a transaction, so no limit applies.
  if (refusal || isAllowanceSufficient(reading, SUGGESTED_VALUE)) return refusal
  if (await isFirstCallMissing({ store }, owner, sponsoring)) return new AppError('permit_travels_with_payment')
  const limited = await store.findSponsoringRefusal(owner, { ...sponsoring, expectedGasWei: 0n, clientNetwork })
  return limited && limitError(limited)
}
