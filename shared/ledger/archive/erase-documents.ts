import type { PackedObject } from '#shared/archive/archived-object.ts'
import type { Pool, Sql } from '../pool.ts'
import { countRows, readOne } from '../read-rows.ts'
import { inTransaction } from '../transaction.ts'
import { firstDayOf, IS_OVER } from './is-over.ts'
import type { Documents } from './read-documents.ts'

/** An object without its bytes. */
type ErasedObject = Omit<PackedObject, 'bytes'> & { readonly bytes: number }

/** Thrown to roll back; the documents are read again. */
class Changed extends Error {}

/**
 * Records an object, which is stored and was read back, and erases its documents in one transaction, so that it is recorded
 * exactly if its documents are erased. The calls are locked and judged once more: returns `false` and changes nothing when
 * one of them is not over any more, or was archived meanwhile.
 */
export async function eraseDocuments(
  pool: Pool,
  month: string,
  object: ErasedObject,
  { calls, transactions }: Documents,
): Promise<boolean> {
  const jobIds = calls.map(({ jobId }) => jobId)
  const hashes = transactions.map(({ hash }) => hash)
  try {
    await inTransaction(pool, async (sql) => {
      if ((await lockCalls(sql, jobIds)) !== jobIds.length) throw new Changed()
      const objectId = await recordObject(sql, month, object, [jobIds.length, hashes.length])
      await eraseCalls(sql, objectId, jobIds)
      if ((await eraseTransactions(sql, objectId, hashes)) !== hashes.length) throw new Changed()
    })
    return true
  } catch (error) {
    if (error instanceof Changed) return false
    throw error
  }
}

/** Returns how many of the calls are over and not archived. They stay so until the transaction ends. */
async function lockCalls(sql: Sql, jobIds: readonly string[]): Promise<number> {
  return await countRows(sql, {
    name: 'lock_calls_to_archive',
    text: `SELECT FROM jobs JOIN receipts ON receipts.job_id = jobs.id
     WHERE jobs.id = ANY($1) AND receipts.archive_object IS NULL AND ${IS_OVER}
     ORDER BY jobs.id FOR UPDATE OF jobs, receipts`,
    values: [jobIds],
  })
}

async function recordObject(
  sql: Sql,
  month: string,
  { key, sha256, bytes, uncompressedBytes }: ErasedObject,
  counts: readonly [calls: number, transactions: number],
): Promise<number> {
  const { id } = await readOne<{ id: number }>(sql, {
    name: 'record_archive_object',
    text: `INSERT INTO archive_objects (key, sha256, month, bytes, uncompressed_bytes, calls, transactions)
     VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING id`,
    values: [key, sha256, firstDayOf(month), bytes, uncompressedBytes, ...counts],
  })
  return id
}

async function eraseCalls(sql: Sql, objectId: number, jobIds: readonly string[]): Promise<void> {
  // First: the triggers let the other documents of a call be erased once its receipt is archived.
  await sql.query({
    name: 'archive_receipts',
    text: 'UPDATE receipts SET archive_object = $1, body = kept_of_receipt(body) WHERE job_id = ANY($2)',
    values: [objectId, jobIds],
  })
  await sql.query({
    name: 'archive_authorizations',
    text: 'UPDATE authorizations SET signed = kept_of_authorization(signed) WHERE job_id = ANY($1)',
    values: [jobIds],
  })
  await sql.query({
    name: 'archive_terms_of_keys',
    // A key that got a new challenge since is left alone.
    text: `UPDATE idempotency_keys AS bound SET terms = '{}' FROM jobs
     WHERE jobs.id = ANY($1) AND bound.idempotency_key = jobs.idempotency_key AND bound.expires_at <= now()`,
    values: [jobIds],
  })
  await sql.query({
    name: 'archive_jobs',
    text: "UPDATE jobs SET terms = '{}', payment_response = '{}' WHERE id = ANY($1)",
    values: [jobIds],
  })
}

/** Returns how many of the transactions were not archived before. */
async function eraseTransactions(sql: Sql, objectId: number, hashes: readonly string[]): Promise<number> {
  return await countRows(sql, {
    name: 'archive_transactions',
    text: `UPDATE settlement_transactions SET archive_object = $1, raw_transaction = ''
     WHERE hash = ANY($2) AND archive_object IS NULL`,
    values: [objectId, hashes],
  })
}
