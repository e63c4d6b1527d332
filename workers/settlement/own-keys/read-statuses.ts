import type { StoredTransaction } from '#shared/jobs/job.ts'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { Confirmation, Settler } from '#shared/payment/facilitator.ts'

/** One transaction of a settlement and its state on chain. */
export interface TransactionStatus {
  readonly transaction: StoredTransaction
  readonly confirmation: Confirmation
}

/** Reads the state of each transaction of a settlement. */
export async function readStatuses(
  settler: Pick<Settler, 'confirm'>,
  transactions: readonly StoredTransaction[],
  authorization: Authorization,
  chargeAmount: AtomicAmount,
): Promise<readonly TransactionStatus[]> {
  const statuses: TransactionStatus[] = []
  for (const transaction of transactions)
    statuses.push({ transaction, confirmation: await settler.confirm(transaction.hash, authorization, chargeAmount) })
  return statuses
}

/** Returns the settlement keys whose account nonces decide whether these can still be mined. */
export function sendersOf(
  transactions: readonly { readonly sender: `0x${string}` | null }[],
): readonly `0x${string}`[] {
  return [...new Set(transactions.flatMap(({ sender }) => sender ?? []))]
}
