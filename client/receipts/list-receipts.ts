import type { AccountClient } from '../account/account-client.ts'
import type { FareboxContext } from '../context.ts'
import type { Attempt } from '../journal/attempt.ts'
import type { AnsweredEntry } from '../journal/entries.ts'
import { operationOfPath } from '../payment/operations.ts'
import type { AccountReceipts } from '../wire/schemas.ts'
import { readReceipt } from './read-receipt.ts'
import type { ReceiptRecord, ReceiptsQuery } from './receipt-store.ts'

interface ListContext extends Pick<FareboxContext, 'journal' | 'payer' | 'baseUrl'> {
  readonly account: AccountClient
}

const PAGE = '100'

/** Lists what the wallet paid to this service, newest first. */
export async function* listReceipts(
  context: ListContext,
  { since, source = 'journal', signal }: ReceiptsQuery = {},
): AsyncGenerator<ReceiptRecord, void> {
  if (source === 'journal') yield* journaledReceipts(context, since)
  else yield* servedReceipts(context, since, signal)
}

/** Returns the calls of this wallet to this service that were charged, newest first. */
export function journaledReceipts(
  { journal, payer, baseUrl }: Pick<ListContext, 'journal' | 'payer' | 'baseUrl'>,
  since?: Date,
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
    receipt: null,
  }
}

async function* servedReceipts(
  { account }: ListContext,
  since: Date | undefined,
  signal: AbortSignal | undefined,
): AsyncGenerator<ReceiptRecord, void> {
  const from = since?.toISOString().slice(0, 'YYYY-MM-DD'.length)
  let cursor: string | undefined
  for (;;) {
    const path = '/v1/account/receipts'
    const page: AccountReceipts = await account.read(path, { limit: PAGE, from, cursor }, signal)
    for (const entry of page.data) {
      const record = servedRecord(entry)
      if (since === undefined || record.at >= since) yield record
    }
    if (page.next_cursor === null || page.next_cursor === cursor) return
    cursor = page.next_cursor
  }
}

function servedRecord(entry: AccountReceipts['data'][number]): ReceiptRecord {
  const receipt = readReceipt(entry.receipt, 'An entry of /v1/account/receipts')
  return {
    receiptId: receipt.id,
    receiptToken: entry.receipt_token,
    key: entry.idempotency_key,
    at: new Date(receipt.issued_at),
    charged: BigInt(receipt.charge_atomic),
    operation: receipt.operation,
    model: receipt.model,
    purpose: null,
    transaction: receipt.settlement?.transaction ?? receipt.transaction,
    verified: 'not_checked',
    problems: [],
    receipt,
  }
}
