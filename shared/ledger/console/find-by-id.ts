import { type Finding, MOST_FINDINGS } from '#shared/operators/findings.ts'
import type { Sql } from '../pool.ts'
import { SETTLEMENTS_OF_SIGNED } from '../settlement-transactions.ts'
import { findByBeginning } from './find-by-beginning.ts'

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
const ADDRESS = /^0x[0-9a-f]{40}$/
const HASH = /^0x[0-9a-f]{64}$/
/** As long as an idempotency key may be. */
const LONGEST_ID = 255

/**
 * Returns what an id of any kind belongs to; when it is none, what ids that begin with it belong to, of an idempotency
 * key no more than the console shows. A text may be several things at once: callers choose request ids and keys.
 */
export async function findById(sql: Sql, text: string): Promise<readonly Finding[]> {
  // PostgreSQL stores no NUL, so nothing has such an id.
  if (text.length > LONGEST_ID || text.includes('\0')) return []
  const lower = text.toLowerCase()
  const found = [
    ...(UUID.test(lower) ? await findUuid(sql, lower) : []),
    ...(ADDRESS.test(lower) ? await findPayer(sql, lower) : []),
    ...(HASH.test(lower) ? await findTransaction(sql, lower) : []),
    ...(await findText(sql, text)),
  ]
  if (found.length === 0) found.push(...(await findByBeginning(sql, text, (hash) => findTransaction(sql, hash))))
  const distinct = new Map(found.map((finding) => [`${finding.kind} ${finding.id}`, finding]))
  return [...distinct.values()].slice(0, MOST_FINDINGS)
}

async function findUuid(sql: Sql, id: string): Promise<readonly Finding[]> {
  const { rows } = await sql.query<Finding>({
    name: 'find_console_uuid',
    text: `SELECT 'job' AS kind, 'job' AS matched, id FROM jobs WHERE id = $1
     UNION ALL SELECT 'job', 'receipt', job_id FROM receipts WHERE id = $1
     UNION ALL SELECT 'job', 'settlement', job_id FROM settlements WHERE id = $1`,
    values: [id],
  })
  return rows
}

async function findPayer(sql: Sql, address: string): Promise<readonly Finding[]> {
  const { rows } = await sql.query<Finding>({
    name: 'find_console_payer',
    text: `SELECT 'payer' AS kind, 'address' AS matched, $1 AS id
     WHERE EXISTS (SELECT FROM jobs WHERE payer = $1)
       OR EXISTS (SELECT FROM unknown_settlements WHERE payer = $1)`,
    values: [address],
  })
  return rows
}

/**
 * Finds every transaction that was signed for settlements, mined or replaced, and those of refunds. Of a large
 * batch only some settlements: each of them shows the others.
 */
async function findTransaction(sql: Sql, hash: string): Promise<readonly Finding[]> {
  const { rows } = await sql.query<Finding>({
    name: 'find_console_transaction',
    text: `SELECT 'job' AS kind, 'transaction' AS matched, settlements.job_id::text AS id
       FROM settlement_transactions AS signed, LATERAL ${SETTLEMENTS_OF_SIGNED} WHERE hash = $1
     UNION SELECT 'job', 'transaction', job_id::text FROM settlements WHERE transaction_hash = $1
     UNION SELECT 'unknown_settlement', 'transaction', payer FROM unknown_settlements WHERE transaction_hash = $1
     UNION SELECT CASE WHEN job_id IS NULL THEN 'unknown_settlement' ELSE 'job' END, 'refund',
       coalesce(job_id::text, payer) FROM resolutions WHERE refund_transaction = $1
     LIMIT ${MOST_FINDINGS}`,
    values: [hash],
  })
  return rows
}

/** Finds what callers name themselves, as a whole. */
async function findText(sql: Sql, text: string): Promise<readonly Finding[]> {
  const { rows } = await sql.query<Finding>({
    name: 'find_console_text',
    text: `(SELECT 'job' AS kind, 'request' AS matched, id FROM jobs WHERE request_id = $1 LIMIT ${MOST_FINDINGS})
     UNION ALL SELECT 'job', 'key', id FROM jobs WHERE idempotency_key = $1
     UNION ALL (SELECT 'job', 'released_key', id FROM jobs WHERE released_idempotency_key = $1 LIMIT ${MOST_FINDINGS})`,
    values: [text],
  })
  return rows
}
