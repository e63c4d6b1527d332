import type { EarlierSettlement } from '#shared/jobs/settlement-store.ts'
import type { Confirmation, SettlementEvidence, Settler } from '#shared/payment/facilitator.ts'
import type { EarlierCharge } from '../look-up-earlier.ts'

/**
 * Determines from the newest block whether an earlier settlement charged the payer. A transfer that is not deep enough
 * yet is `unclear`: settling another authorization as well could charge twice.
 */
export async function findEarlierCharge(
  settler: Pick<Settler, 'confirm' | 'readEvidence' | 'findTransfer'>,
  { known, settledBy, authorization, chargeAmount, transactions, fillers, firstBlock }: EarlierSettlement,
): Promise<EarlierCharge> {
  if (known === 'failed_finally') return 'failed'
  // Only a worker with the facilitator can complete the job with its settlement.
  const charged = settledBy === 'own_key' ? 'charged' : 'unclear'
  if (known === 'charged') return charged
  const evidence = await settler.readEvidence(authorization, 'newest')
  const statuses: Status[] = []
  // Read after the evidence, so that a transaction that used the nonce by then is found.
  for (const { hash, accountNonce } of transactions)
    statuses.push({ accountNonce, confirmation: await settler.confirm(hash, authorization, chargeAmount) })
  if (statuses.some(({ confirmation }) => confirmation.outcome === 'confirmed')) return charged
  const outcomes = new Set(statuses.map(({ confirmation }) => confirmation.outcome))
  if (evidence.outcome === 'unreachable' || outcomes.has('unreachable') || outcomes.has('transfer_missing'))
    return 'unclear'
  const usedByFillers: bigint[] = []
  for (const { hash, accountNonce } of fillers)
    if (isMined(await settler.confirm(hash, authorization, chargeAmount))) usedByFillers.push(accountNonce)
  const unexcluded = withoutReverted(statuses, usedByFillers)
  if (!evidence.isNonceUsed) return canStillBeMined(unexcluded, evidence, authorization.deadline) ? 'unclear' : 'failed'
  // The payer invalidated the nonce, unless one of our transactions that the node does not show used it.
  if (statuses.length === 0 || unexcluded.some((status) => !isAfter(status, evidence))) return 'unclear'
  const hashes = transactions.map(({ hash }) => hash)
  return (await settler.findTransfer(hashes, authorization, firstBlock)) === 'missing' ? 'failed' : 'unclear'
}

type ReadEvidence = Extract<SettlementEvidence, { outcome: 'read' }>
type Status = { readonly accountNonce: bigint | null; readonly confirmation: Confirmation }

/** Returns whether a transaction without a payment was mined. */
function isMined({ outcome }: Confirmation): boolean {
  return outcome === 'transfer_missing' || outcome === 'reverted'
}

/** Leaves out the transactions that reverted, and those whose account nonce another mined transaction used. */
function withoutReverted(statuses: readonly Status[], usedByFillers: readonly bigint[]): readonly Status[] {
  const isReverted = ({ confirmation }: Status) => confirmation.outcome === 'reverted'
  const usedNonces = new Set([...usedByFillers, ...statuses.filter(isReverted).map(({ accountNonce }) => accountNonce)])
  return statuses.filter(
    (status) => !isReverted(status) && (status.accountNonce === null || !usedNonces.has(status.accountNonce)),
  )
}

/** Returns whether a transaction was not mined up to the block of the evidence. */
function isAfter({ accountNonce }: Status, { accountNonceCount }: ReadEvidence): boolean {
  return accountNonce !== null && accountNonce >= accountNonceCount
}

/** Returns whether the chain may still execute a transaction, with the payer's nonce unused. */
function canStillBeMined(
  statuses: readonly Status[],
  { accountNonceCount, chainTime }: ReadEvidence,
  deadline: bigint,
): boolean {
  if (chainTime.getTime() > Number(deadline) * 1000) return false
  return statuses.some(({ accountNonce }) => accountNonce === null || accountNonce >= accountNonceCount)
}
