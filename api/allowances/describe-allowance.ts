import type { z } from 'zod'
import { AppError } from '#shared/errors/app-error.ts'
import { approvalCall, lastingPermit } from '../paid-request/pay/permit-terms.ts'
import type { allowanceStatusSchema } from '../schemas/allowances.ts'
import {
  type AllowanceDependencies,
  findOwnerRefusal,
  MINIMUM_DEADLINE_SECONDS,
  MINIMUM_VALUE,
  partiesOf,
  readOwner,
  renderPermit,
} from './store-permit.ts'

type AllowanceStatus = z.infer<typeof allowanceStatusSchema>

/**
 * Describes what an owner may pay without another permit, the one that is stored, whether the service would store one
 * now, and the message to sign for it. Throws `payment_network_unavailable`.
 */
export async function describeAllowance(
  dependencies: AllowanceDependencies,
  owner: `0x${string}`,
): Promise<AllowanceStatus> {
  const { terms, permitStore, now } = dependencies
  const [reading, stored] = await Promise.all([readOwner(dependencies, owner), permitStore.findStoredPermit(owner)])
  const { allowance, balance, permitNonce: nonce, block, chainTime, wallet } = reading
  const machineTime = BigInt(Math.floor(now().getTime() / 1000))
  const nowSeconds = chainTime > machineTime ? chainTime : machineTime
  const isStoring = terms.settlementContract !== null
  const usable = isStoring && stored?.nonce === nonce && stored.deadline > nowSeconds ? stored : null
  const payable = usable && usable.value > allowance ? usable.value : allowance
  const maximum = payable < balance ? payable : balance
  const refusal = isStoring ? findOwnerRefusal(terms, reading) : new AppError('permits_not_stored')
  return {
    object: 'allowance_status',
    ...partiesOf(terms, owner),
    allowance: allowance.toString(),
    balance_usdc_atomic: balance.toString(),
    permit_nonce: nonce.toString(),
    block: Number(block),
    pays_without_permit: maximum > 0n,
    maximum_without_permit: maximum.toString(),
    stored_permit: usable && renderPermit(usable),
    storing: {
      available: refusal === null,
      reason: refusal?.code ?? null,
      message: refusal?.message ?? null,
      minimum_value: MINIMUM_VALUE.toString(),
      minimum_deadline_seconds: MINIMUM_DEADLINE_SECONDS,
    },
    wallet: { has_code: wallet.hasCode, may_pay: wallet.refusal === null, message: wallet.refusal },
    approval: wallet.signsPermits ? null : approvalCall(terms),
    typed_data: lastingPermit(terms, { owner, nonce, nowSeconds }),
  }
}
