import type { ArchivedCall } from '#shared/archive/archive-store.ts'
import type { RecordedObject } from '#shared/archive/archived-object.ts'
import type { Sql } from '../pool.ts'
import { SIGNED_FOR_SETTLEMENT } from '../settlement-transactions.ts'

interface Row extends Omit<ArchivedCall, 'object'>, RecordedObject {}

/** Returns where the documents of a receipt or a job are; `null` when they are in the ledger, or there are none. */
export async function findArchivedCall(sql: Sql, id: string): Promise<ArchivedCall | null> {
  const { rows } = await sql.query<Row>({
    name: 'find_archived_call',
    text: `SELECT receipts.id AS "receiptId", key, sha256, coalesce((
         SELECT json_agg(json_build_object('hash', hash, 'object', json_build_object('key', of_transaction.key,
           'sha256', of_transaction.sha256)))
         FROM settlements, LATERAL ${SIGNED_FOR_SETTLEMENT} JOIN settlement_transactions AS stored USING (hash)
         JOIN archive_objects AS of_transaction ON of_transaction.id = stored.archive_object
         WHERE settlements.job_id = receipts.job_id), '[]') AS transactions
     FROM receipts JOIN archive_objects ON archive_objects.id = archive_object
     WHERE receipts.id = $1 OR receipts.job_id = $1`,
    values: [id],
  })
  const [row] = rows
  if (!row) return null
  const { receiptId, key, sha256, transactions } = row
  return { receiptId, object: { key, sha256 }, transactions }
}
