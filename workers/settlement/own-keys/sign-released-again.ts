import type { UnfinalSettlement } from '#shared/adapters/postgres/settlement/finality.ts'
import type { SettlementStore } from '#shared/adapters/postgres/settlement/settlement-store.ts'
import type { Settler } from '#shared/payment/facilitator.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import { countNonces, MOST_ACCOUNT_NONCES, minimumOf, type SignAgainVerdict } from './sign-again.ts'

export interface ReleasedDependencies {
  readonly settlementStore: Pick<SettlementStore, 'renewReleased'>
  readonly settler: Pick<Settler, 'broadcast' | 'prepare' | 'sign' | 'signBatch'>
  readonly logger: Logger
}

/**
 * Signs the charge of a released result for another account nonce, after a reorganization removed its settlement and none
 * of its transactions can be mined any more: each goes alone, since this is rare. Its payer may have spent the money since,
 * or the contract may list no key: then it is tried again at every poll, until the authorization expires. Returns whether
 * it was signed.
 */
export async function signReleasedAgain(
  { settlementStore, settler, logger }: ReleasedDependencies,
  settlement: UnfinalSettlement,
  verdict: SignAgainVerdict,
): Promise<boolean> {
  const { jobId, authorization, chargeAmount } = settlement
  const cannotBeSent = (reason: string) => {
    logger.error('a settlement was removed from the chain and cannot be sent again', { jobId, reason })
    return false
  }
  if (countNonces(settlement) >= MOST_ACCOUNT_NONCES)
    return cannotBeSent(`signed for ${MOST_ACCOUNT_NONCES} account nonces, none of which settled it`)
  const prepared = await settler.prepare(authorization, chargeAmount)
  if (prepared.outcome !== 'ready')
    return cannotBeSent(prepared.outcome === 'refused' ? prepared.code : prepared.outcome)
  const { terms, sender, contract } = prepared
  const renewed = await settlementStore.renewReleased(settlement, {
    account: { network: authorization.network, facilitator: sender },
    contract,
    charge: { authorization, chargeAmount, terms },
    minimumAccountNonce: minimumOf(prepared, verdict),
    sign: (charges, accountNonce) =>
      contract === null
        ? settler.sign(authorization, chargeAmount, terms, accountNonce)
        : settler.signBatch(charges, sender, accountNonce),
  })
  if (!renewed) return false
  logger.warn('a settlement was removed from the chain and signed again', { jobId, facilitator: sender })
  await settler.broadcast(renewed)
  return true
}
