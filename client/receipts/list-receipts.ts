import type { FareboxContext } from '../context.ts'
import type { Attempt } from '../journal/attempt.ts'
import type { AnsweredEntry } from '../journal/entries.ts'
import { operationOfPath } from '../payment/operations.ts'
import type { ReceiptRecord, ReceiptsQuery } from './receipt-store.ts'

/** Returns the calls of this wallet to this service that were charged, newest first. */
export function listReceipts(
  { journal, payer, baseUrl }: Pick<FareboxContext, 'journal' | 'payer' | 'baseUrl'>,
  { since }: ReceiptsQuery = {},
): readonly ReceiptRecord[] {
  journal.refresh()
  const { origin } = new URL(baseUrl)
  const found: ReceiptRecord[] = []
  for (const attempt of journal.attempts.all()) {
    if (attempt.payer !== payer || attempt.origin !== origin) continue
    for (const answered of attempt.receipts) found.push(recordOf(attempt, answered))
  }
  return found.filter(({ at }) => since === undefined || at >= since).sort((a, b) => b.at.getTime() - a.at.getTime())
}

function recordOf(
  attempt: Attempt,
  { receiptId, receiptToken, charge, transaction, at }: AnsweredEntry,
): ReceiptRecord {
  const { key, path, model, purpose, verification, problems } = attempt
  return {
    receiptId,
    receiptToken,
    key,
    at: new Date(at),
    charged: BigInt(charge),
    operation: operationOfPath(path),
    model,
    purpose,
    transaction,
    verified: verification === 'none' ? 'not_checked' : verification,
    problems,
  }
}
