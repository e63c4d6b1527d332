import type { StoredTransaction } from '#shared/jobs/job.ts'
import type { Confirmation, SettlementEvidence } from '#shared/payment/facilitator.ts'

/** One transaction of a settlement and what the chain says of it. */
export interface TransactionStatus {
  readonly transaction: StoredTransaction
  readonly confirmation: Confirmation
}

export type Verdict =
  | {
      verdict: 'collected'
      transaction: StoredTransaction
      confirmation: Extract<Confirmation, { outcome: 'confirmed' }>
    }
  /** It can never be collected with what was signed, nor by signing again. */
  | { verdict: 'uncollectable'; reason: string }
  /** None of the transactions can be mined any more, and none moved money: another account nonce is needed. */
  | { verdict: 'nonce_used_elsewhere'; accountNonceCount: bigint }
  /** Mined, and yet not what was signed for. A person must look. */
  | { verdict: 'transfer_missing'; reason: string }
  /** The evidence contradicts itself. A person must look, unless the nodes agree within a while. */
  | { verdict: 'unexplained'; reason: string }
  | { verdict: 'open' }

/**
 * What has become of a settlement, judged over all transactions that were ever signed for it. `evidence` comes from one block
 * and must have been read before the transactions were looked at; without it only what receipts prove is concluded.
 *
 * Nothing final rests on a receipt that was not found, since nodes lag. What is concluded from the evidence holds by itself:
 * while Permit2 has the payer's nonce as unused, no transaction up to that block moved money, and one whose account nonce is
 * used up, or whose deadline that block has passed, never will.
 */
export function judgeSettlement(
  statuses: readonly TransactionStatus[],
  evidence: Extract<SettlementEvidence, { outcome: 'read' }> | null,
  deadline: bigint,
): Verdict {
  for (const { transaction, confirmation } of statuses) {
    if (confirmation.outcome === 'confirmed') return { verdict: 'collected', transaction, confirmation }
    if (confirmation.outcome === 'transfer_missing')
      return { verdict: 'transfer_missing', reason: `no transfer in ${transaction.hash}` }
  }
  if (statuses.some(({ confirmation }) => confirmation.outcome === 'unreachable')) return { verdict: 'open' }
  const reverts = findReverts(statuses)
  const accountNonces = statuses.map(({ transaction }) => transaction.accountNonce)
  const [revert] = reverts.values()
  if (revert !== undefined && accountNonces.every((nonce) => reverts.has(nonce)))
    return { verdict: 'uncollectable', reason: revert }
  if (!evidence) return { verdict: 'open' }
  const { accountNonceCount } = evidence
  if (evidence.isNonceUsed) {
    // None of ours was mined up to that block without being seen to fail, so it was the payer who used the nonce.
    return accountNonces.every((nonce) => reverts.has(nonce) || nonce >= accountNonceCount)
      ? { verdict: 'uncollectable', reason: 'the payer burnt the nonce' }
      : { verdict: 'unexplained', reason: 'the nonce is used and no transaction of ours is found' }
  }
  if (evidence.chainTime.getTime() > Number(deadline) * 1000)
    return { verdict: 'uncollectable', reason: 'the authorization expired' }
  if (accountNonces.some((nonce) => !reverts.has(nonce) && nonce >= accountNonceCount)) return { verdict: 'open' }
  return revert === undefined
    ? { verdict: 'nonce_used_elsewhere', accountNonceCount }
    : { verdict: 'uncollectable', reason: revert }
}

/** A revert of one transaction ends all that share its account nonce. */
function findReverts(statuses: readonly TransactionStatus[]): ReadonlyMap<bigint, string> {
  return new Map(
    statuses.flatMap(({ transaction, confirmation }) =>
      confirmation.outcome === 'reverted'
        ? [[transaction.accountNonce, `reverted in block ${confirmation.blockNumber}`] as const]
        : [],
    ),
  )
}
