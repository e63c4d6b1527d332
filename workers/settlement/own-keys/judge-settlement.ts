import type { StoredTransaction } from '#shared/jobs/job.ts'
import type { JudgedBlock } from '#shared/ledger/settlement/end-settlement.ts'
import type { Confirmation, SettlementEvidence } from '#shared/payment/facilitator.ts'
import type { TransactionStatus } from './read-statuses.ts'

type ReadEvidence = Extract<SettlementEvidence, { outcome: 'read' }>
type AccountNonceCounts = ReadEvidence['accountNonceCounts']

export type Verdict =
  | {
      verdict: 'settled'
      transaction: StoredTransaction
      confirmation: Extract<Confirmation, { outcome: 'confirmed' }>
    }
  /** Neither the signed transactions nor another one can settle the charge, while the chain contains the block. */
  | { verdict: 'uncollectable'; reason: string; judgedAt: JudgedBlock }
  /** No signed transaction can still be mined and none moved money, so another account nonce is needed. */
  | { verdict: 'nonce_used_elsewhere'; accountNonceCounts: AccountNonceCounts; judgedAt: JudgedBlock }
  /** The same, because a batch reverted as a whole. Any other payment of the batch may be the cause. */
  | { verdict: 'batch_reverted'; accountNonceCounts: AccountNonceCounts; judgedAt: JudgedBlock }
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
  evidence: ReadEvidence | null,
  deadline: bigint,
): Verdict {
  for (const { transaction, confirmation } of statuses) {
    if (confirmation.outcome === 'confirmed') return { verdict: 'settled', transaction, confirmation }
    if (confirmation.outcome === 'transfer_missing')
      return { verdict: 'transfer_missing', reason: `no transfer in ${transaction.hash}` }
  }
  if (statuses.some(({ confirmation }) => confirmation.outcome === 'unreachable')) return { verdict: 'open' }
  const { failed, spent } = findReverts(statuses)
  const isSpent = ({ transaction }: TransactionStatus) => spent.has(nonceOf(transaction))
  const [failure] = failed
  const judgedBy = (first: JudgedBlock) => newestOf([...spent.values()], first)
  if (failure && statuses.every(isSpent))
    return { verdict: 'uncollectable', reason: reasonOf(failure), judgedAt: judgedBy(failure) }
  if (!evidence) return { verdict: 'open' }
  const { accountNonceCounts } = evidence
  const countOf = ({ transaction }: TransactionStatus) => accountNonceCounts.get(transaction.sender)
  const isUnmined = (status: TransactionStatus) => {
    const count = countOf(status)
    return count !== undefined && status.transaction.accountNonce >= count
  }
  const evidenceAt = { number: evidence.blockNumber, hash: evidence.blockHash }
  if (evidence.isNonceUsed) {
    // Each of our transactions reverted or was not mined up to that block, so the payer used the nonce.
    return statuses.every((status) => isSpent(status) || isUnmined(status))
      ? { verdict: 'uncollectable', reason: 'the payer invalidated the nonce', judgedAt: evidenceAt }
      : { verdict: 'unexplained', reason: 'the nonce is used, but none of our transactions is found' }
  }
  if (evidence.chainTime.getTime() > Number(deadline) * 1000)
    return { verdict: 'uncollectable', reason: 'the authorization expired', judgedAt: evidenceAt }
  // One whose sender was not read may be mined as well.
  if (statuses.some((status) => !isSpent(status) && (isUnmined(status) || countOf(status) === undefined)))
    return { verdict: 'open' }
  const judgedAt = judgedBy(evidenceAt)
  if (failure) return { verdict: 'uncollectable', reason: reasonOf(failure), judgedAt }
  return { verdict: spent.size > 0 ? 'batch_reverted' : 'nonce_used_elsewhere', accountNonceCounts, judgedAt }
}

interface Reverts {
  /** Blocks in which the payment itself failed. */
  readonly failed: readonly JudgedBlock[]
  /**
   * Where account nonces were used by a transaction that reverted, for this payment or as a whole: that rules out every
   * other one with the same account nonce.
   */
  readonly spent: ReadonlyMap<string, JudgedBlock>
}

function findReverts(statuses: readonly TransactionStatus[]): Reverts {
  const failed: JudgedBlock[] = []
  const spent = new Map<string, JudgedBlock>()
  for (const { transaction, confirmation } of statuses) {
    if (confirmation.outcome !== 'reverted' && confirmation.outcome !== 'batch_reverted') continue
    const block = { number: confirmation.blockNumber, hash: confirmation.blockHash }
    spent.set(nonceOf(transaction), block)
    if (confirmation.outcome === 'reverted') failed.push(block)
  }
  return { failed, spent }
}

function nonceOf({ sender, accountNonce }: TransactionStatus['transaction']): string {
  return `${sender} ${accountNonce}`
}

function reasonOf({ number }: JudgedBlock): string {
  return `reverted in block ${number}`
}

/** Returns the block that contains all others on its chain. */
function newestOf(blocks: readonly JudgedBlock[], first: JudgedBlock): JudgedBlock {
  return blocks.reduce((newest, block) => (block.number > newest.number ? block : newest), first)
}
