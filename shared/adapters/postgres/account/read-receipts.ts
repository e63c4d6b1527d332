import type { ReceiptArchive } from '#shared/archive/receipt-archive.ts'
import type { AccountPage, AccountPeriod, AccountReceipt, PageRequest } from '#shared/jobs/account-store.ts'
import { CURRENT_RECEIPT, type CurrentReceiptRow, currentReceipt, HAS_RECEIPT } from '../current-receipt.ts'
import type { Sql } from '../pool.ts'
import { cutPage, END, microsecondsOf, type PositionRow, positionAt, timestampOf } from '../position.ts'

type ReceiptRow = PositionRow & CurrentReceiptRow & { readonly idempotency_key: string }

/**
 * Returns a payer's receipts, newest first. A page begins after the last entry of the previous one, so that receipts
 * that are issued meanwhile neither shift nor repeat an entry.
 */
export async function readReceipts(
  sql: Sql,
  archive: ReceiptArchive,
  payer: string,
  { limit, after, period }: PageRequest & { readonly period: AccountPeriod },
): Promise<AccountPage<AccountReceipt>> {
  const from = after ?? (period.until ? positionAt(period.until) : END)
  const { rows } = await sql.query<ReceiptRow>({
    name: 'read_account_receipts',
    text: `SELECT page.id, ${microsecondsOf('page.finished_at')} AS microseconds, page.idempotency_key, ${CURRENT_RECEIPT}
     FROM (
       SELECT id, finished_at, idempotency_key, receipt_id FROM jobs
       WHERE payer = $1 AND state = 'completed' AND (finished_at, id) < (${timestampOf('$2')}, $3::uuid)
         AND finished_at >= ${timestampOf('$4')}
       ORDER BY finished_at DESC, id DESC LIMIT $5) AS page
     JOIN receipts ON receipts.id = page.receipt_id
     JOIN settlements ON settlements.job_id = page.id AND ${HAS_RECEIPT}
     ORDER BY page.finished_at DESC, page.id DESC`,
    values: [
      payer,
      from.microseconds.toString(),
      from.id,
      (BigInt(period.from?.getTime() ?? 0) * 1000n).toString(),
      limit + 1,
    ],
  })
  const page = cutPage(rows, limit)
  return {
    entries: await Promise.all(
      page.rows.map(async (row) => ({
        receipt: await currentReceipt(row, archive),
        idempotencyKey: row.idempotency_key,
      })),
    ),
    next: page.next,
  }
}
