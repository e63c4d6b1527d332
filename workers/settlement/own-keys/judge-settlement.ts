import type { StoredTransaction } from '#shared/jobs/job.ts'
import type { JudgedBlock } from '#shared/jobs/settlement-store.ts'
import type { Confirmation, SettlementEvidence } from '#shared/payment/facilitator.ts'
import type { TransactionStatus } from './read-statuses.ts'

export type Verdict =
  | {
      verdict: 'settled'
      transaction: StoredTransaction
      confirmation: Extract<Confirmation, { outcome: 'confirmed' }>
    }
  /** Neither the signed transactions nor another one can settle the charge, while the chain contains the block. */
  | { verdict: 'uncollectable'; reason: string; judgedAt: JudgedBlock }
  /** No signed transaction can still be mined and none moved money, so another account nonce is needed. */
  | { verdict: 'nonce_used_elsewhere'; accountNonceCount: bigint; judgedAt: JudgedBlock }
  /** Mined without the signed transfer. A person must review it. */
  | { verdict: 'transfer_missing'; reason: string }
  /** The evidence contradicts itself. A person must review it unless the nodes soon agree. */
  | { verdict: 'unexplained'; reason: string }
  | { verdict: 'open' }

/**
 * Returns the verdict on a settlement over all transactions that were ever signed for it. `evidence` comes from one
 * block and must be read before the statuses; without it, only receipts count.
 *
 * A missing receipt proves nothing, since nodes lag. Evidence is conclusive: while Permit2 reports the payer's nonce as
 * unused, no transaction up to that block moved money, and one whose account nonce is used, or whose deadline has
 * passed, never will.
 */
export function judgeSettlement(
  statuses: readonly TransactionStatus[],
  evidence: Extract<SettlementEvidence, { outcome: 'read' }> | null,
  deadline: bigint,
): Verdict {
  for (const { transaction, confirmation } of statuses) {
    if (confirmation.outcome === 'confirmed') return { verdict: 'settled', transaction, confirmation }
    if (confirmation.outcome === 'transfer_missing')
      return { verdict: 'transfer_missing', reason: `no transfer in ${transaction.hash}` }
  }
  if (statuses.some(({ confirmation }) => confirmation.outcome === 'unreachable')) return { verdict: 'open' }
  const reverts = findReverts(statuses)
  const accountNonces = statuses.map(({ transaction }) => transaction.accountNonce)
  const [revert] = reverts.values()
  if (revert !== undefined && accountNonces.every((nonce) => reverts.has(nonce)))
    return { verdict: 'uncollectable', reason: reasonOf(revert), judgedAt: newestOf([...reverts.values()], revert) }
  if (!evidence) return { verdict: 'open' }
  const { accountNonceCount } = evidence
  const judgedAt = { number: evidence.blockNumber, hash: evidence.blockHash }
  if (evidence.isNonceUsed) {
    // Each of our transactions reverted or was not mined up to that block, so the payer used the nonce.
    return accountNonces.every((nonce) => reverts.has(nonce) || nonce >= accountNonceCount)
      ? { verdict: 'uncollectable', reason: 'the payer invalidated the nonce', judgedAt }
      : { verdict: 'unexplained', reason: 'the nonce is used, but none of our transactions is found' }
  }
  if (evidence.chainTime.getTime() > Number(deadline) * 1000)
    return { verdict: 'uncollectable', reason: 'the authorization expired', judgedAt }
  if (accountNonces.some((nonce) => !reverts.has(nonce) && nonce >= accountNonceCount)) return { verdict: 'open' }
  return revert === undefined
    ? { verdict: 'nonce_used_elsewhere', accountNonceCount, judgedAt }
    : { verdict: 'uncollectable', reason: reasonOf(revert), judgedAt: newestOf([...reverts.values()], judgedAt) }
}

/** Returns reverts by account nonce: a revert rules out every transaction that shares it. */
function findReverts(statuses: readonly TransactionStatus[]): ReadonlyMap<bigint, JudgedBlock> {
  return new Map(
    statuses.flatMap(({ transaction, confirmation }) =>
      confirmation.outcome === 'reverted'
        ? [[transaction.accountNonce, { number: confirmation.blockNumber, hash: confirmation.blockHash }] as const]
        : [],
    ),
  )
}

function reasonOf({ number }: JudgedBlock): string {
  return `reverted in block ${number}`
}

/** Returns the block that contains all others on its chain. */
function newestOf(blocks: readonly JudgedBlock[], first: JudgedBlock): JudgedBlock {
  return blocks.reduce((newest, block) => (block.number > newest.number ? block : newest), first)
}
