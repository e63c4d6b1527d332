import type { EarlierSettlement } from '#shared/jobs/settlement-store.ts'
import type { Confirmation, SettlementEvidence, Settler } from '#shared/payment/facilitator.ts'
import type { EarlierCharge } from '../look-up-earlier.ts'

/**
 * Finds out from the newest block whether an earlier settlement charged the payer. Also a transfer that is not deep
 * enough yet counts, as `unclear`: settling another authorization beside it could charge twice.
 */
export async function findEarlierCharge(
  settler: Pick<Settler, 'confirm' | 'readEvidence' | 'findTransfer'>,
  { known, authorization, chargeAmount, transactions, firstBlock }: EarlierSettlement,
): Promise<EarlierCharge> {
  if (known === 'charged') return 'charged'
  if (known === 'failed_finally') return 'failed'
  const evidence = await settler.readEvidence(authorization, 'newest')
  const statuses: { readonly accountNonce: bigint | null; readonly confirmation: Confirmation }[] = []
  // Read after the evidence, so that a transaction that used the nonce by then is found.
  for (const { hash, accountNonce } of transactions)
    statuses.push({ accountNonce, confirmation: await settler.confirm(hash, authorization, chargeAmount) })
  if (statuses.some(({ confirmation }) => confirmation.outcome === 'confirmed')) return 'charged'
  const outcomes = new Set(statuses.map(({ confirmation }) => confirmation.outcome))
  if (evidence.outcome === 'unreachable' || outcomes.has('unreachable') || outcomes.has('transfer_missing'))
    return 'unclear'
  if (!evidence.isNonceUsed) return canStillBeMined(statuses, evidence, authorization.deadline) ? 'unclear' : 'failed'
  // The payer invalidated the nonce, unless one of our transactions used it that a node does not show.
  if (statuses.length === 0 || statuses.some((status) => !isExcluded(status, evidence))) return 'unclear'
  const hashes = transactions.map(({ hash }) => hash)
  return (await settler.findTransfer(hashes, authorization, firstBlock)) === 'missing' ? 'failed' : 'unclear'
}

type ReadEvidence = Extract<SettlementEvidence, { outcome: 'read' }>
type Status = { readonly accountNonce: bigint | null; readonly confirmation: Confirmation }

/** Returns whether a transaction reverted, or was not mined up to the block of the evidence. */
function isExcluded({ accountNonce, confirmation }: Status, { accountNonceCount }: ReadEvidence): boolean {
  return confirmation.outcome === 'reverted' || (accountNonce !== null && accountNonce >= accountNonceCount)
}

/** Returns whether the chain may still execute a transaction, with the payer's nonce unused. */
function canStillBeMined(
  statuses: readonly Status[],
  { accountNonceCount, chainTime }: ReadEvidence,
  deadline: bigint,
): boolean {
  if (chainTime.getTime() > Number(deadline) * 1000) return false
  return statuses.some(
    ({ accountNonce, confirmation }) =>
      confirmation.outcome !== 'reverted' && (accountNonce === null || accountNonce >= accountNonceCount),
  )
}
