import type { RecordedObject } from '#shared/archive/archived-object.ts'
import { bindTo } from '#shared/runtime/bind-to.ts'
import type { Pool, Sql } from '../pool.ts'
import { readFirst, readOne, readRows } from '../read-rows.ts'
import { SIGNED_FOR_SETTLEMENT } from '../settlement-transactions.ts'
import { eraseDocuments } from './erase-documents.ts'
import { boundsOf, firstDayOf, IS_OVER, monthOf, NOT_ARCHIVED } from './is-over.ts'
import { readDocuments } from './read-documents.ts'

/** An arbitrary constant: two runs beside each other would store the same documents twice. */
const ADVISORY_LOCK = 8453_2027
/** A process reports every two seconds. */
const RUNS_WITHIN_SECONDS = 60

export type ArchiveStore = ReturnType<typeof createArchiveStore>
/** One run, which no other is beside. */
export type ArchiveRun = NonNullable<Awaited<ReturnType<typeof begin>>>

/**
 * Creates the ledger as a run of the archive sees it, over a pool of at least two connections without a pooler that shares
 * sessions. Months are written `2026-08`.
 */
export function createArchiveStore(pool: Pool) {
  return bindTo(pool, { findOtherProcesses, findMonths, readTotals, findCall, listObjects, begin })
}

/**
 * Begins a run. Returns `null` while another one is under way. The lock belongs to the session of the run, which also has the cursor: it ends when
 * the program does, however it ends.
 */
async function begin(pool: Pool) {
  const session = await pool.connect()
  const end = async () => session.release(true)
  try {
    const { rows } = await session.query<{ is_locked: boolean }>(
      `SELECT pg_try_advisory_lock(${ADVISORY_LOCK}) AS is_locked`,
    )
    if (rows[0]?.is_locked !== true) {
      await end()
      return null
    }
  } catch (error) {
    await end()
    throw error
  }
  return {
    ...bindTo(session, { findCalls }),
    ...bindTo(pool, { readDocuments, erase: eraseDocuments, finishMonth }),
    [Symbol.asyncDispose]: end,
  }
}

/** Records that the whole month was looked at. */
async function finishMonth(sql: Sql, month: string, remaining: number): Promise<void> {
  await sql.query({
    name: 'finish_archive_month',
    text: `INSERT INTO archive_months (month, remaining) VALUES ($1, $2)
     ON CONFLICT (month) DO UPDATE SET remaining = EXCLUDED.remaining, archived_at = now()`,
    values: [firstDayOf(month), remaining],
  })
}

/** A process of another version, which does not know the archive. */
interface OtherProcess {
  readonly instance: string
  readonly kind: string
  readonly version: string
}

/** Returns the processes that run now and are not of this version. */
async function findOtherProcesses(sql: Sql, version: string): Promise<readonly OtherProcess[]> {
  return await readRows<OtherProcess>(sql, {
    name: 'find_processes_of_other_versions',
    text: `SELECT instance, kind, report ->> 'version' AS version FROM process_reports
     WHERE seen_at > now() - make_interval(secs => $1) AND report ->> 'version' IS DISTINCT FROM $2
     ORDER BY kind, instance`,
    values: [RUNS_WITHIN_SECONDS, version],
  })
}

/** Returns the months before `before` that have completed calls, without those that are archived completely. */
async function findMonths(sql: Sql, before: string): Promise<readonly string[]> {
  const { rows: first } = await sql.query<{ finished_at: Date | null }>(
    "SELECT min(finished_at) AS finished_at FROM jobs WHERE state = 'completed'",
  )
  const { rows: done } = await sql.query<{ month: string }>(
    "SELECT to_char(month, 'YYYY-MM') AS month FROM archive_months WHERE remaining = 0",
  )
  const complete = new Set(done.map(({ month }) => month))
  const months: string[] = []
  const oldest = first[0]?.finished_at
  if (!oldest) return months
  for (let month = monthOf(oldest); month < before; month = monthOf(boundsOf(month)[1]))
    if (!complete.has(month)) months.push(month)
  return months
}

/** What a run would archive of a month. */
export interface MonthTotals {
  readonly month: string
  readonly calls: number
  /** What erasing their documents would free in their rows. */
  readonly bytes: number
  /** Completed calls that are not archived and not over. */
  readonly remaining: number
}

/** Counts what a run would archive of a month. The bytes are those of the stored columns, without what stays of them. */
async function readTotals(sql: Sql, month: string): Promise<MonthTotals> {
  const row = await readOne<{ calls: bigint; remaining: bigint; bytes: bigint }>(sql, {
    name: 'read_archive_totals',
    text: `SELECT count(*) FILTER (WHERE is_over) AS calls, count(*) FILTER (WHERE NOT is_over) AS remaining,
       coalesce(sum(bytes) FILTER (WHERE is_over), 0) AS bytes
     FROM (SELECT ${IS_OVER} AS is_over,
         pg_column_size(jobs.terms) + pg_column_size(jobs.payment_response)
           + (SELECT pg_column_size(body) - pg_column_size(kept_of_receipt(body)) FROM receipts WHERE job_id = jobs.id)
           + (SELECT sum(pg_column_size(signed) - pg_column_size(kept_of_authorization(signed)))
              FROM authorizations WHERE job_id = jobs.id)
           + (SELECT pg_column_size(bound.terms) FROM idempotency_keys AS bound
              WHERE bound.idempotency_key = jobs.idempotency_key) AS bytes
       FROM jobs WHERE ${NOT_ARCHIVED}) AS calls`,
    values: [...boundsOf(month)],
  })
  return { month, calls: Number(row.calls), bytes: Number(row.bytes), remaining: Number(row.remaining) }
}

/** A call whose documents are archived. */
export interface ArchivedCall {
  readonly receiptId: string
  readonly object: RecordedObject
  /** Where its transactions are; those of a batch whose other calls are not all archived are in the ledger. */
  readonly transactions: readonly { readonly hash: string; readonly object: RecordedObject }[]
}

interface ArchivedRow extends Omit<ArchivedCall, 'object'>, RecordedObject {}

/** Returns where the documents of a receipt or a job are; `null` when they are in the ledger, or there are none. */
async function findCall(sql: Sql, id: string): Promise<ArchivedCall | null> {
  const row = await readFirst<ArchivedRow>(sql, {
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
  if (!row) return null
  const { receiptId, key, sha256, transactions } = row
  return { receiptId, object: { key, sha256 }, transactions }
}

const PAGE_SIZE = 1000

/** Returns what was archived, newest first. */
async function* listObjects(sql: Sql): AsyncGenerator<RecordedObject> {
  for (let before: number | null = null; ;) {
    const { rows }: { rows: (RecordedObject & { id: number })[] } = await sql.query({
      name: 'list_archive_objects',
      text: `SELECT id, key, sha256 FROM archive_objects WHERE $1::integer IS NULL OR id < $1
       ORDER BY id DESC LIMIT ${PAGE_SIZE}`,
      values: [before],
    })
    yield* rows
    const last = rows.at(-1)
    if (!last) return
    before = last.id
  }
}

/** Calls of one object: about a megabyte of text, which a process that looks for one receipt reads as a whole. */
const CALLS_OF_OBJECT = 256

/**
 * Returns the ids of a month's completed calls that are not archived. They are sorted once, by a cursor that outlives its
 * transaction, so `sql` must be one session. No transaction stays open between two steps.
 */
async function* findCalls(sql: Sql, month: string): AsyncGenerator<readonly string[]> {
  const [from, before] = boundsOf(month)
  await sql.query('BEGIN')
  // A cursor takes no parameters from node-postgres; both are times that were written here.
  const calls = NOT_ARCHIVED.replace('$1', `'${from.toISOString()}'`).replace('$2', `'${before.toISOString()}'`)
  await sql.query(
    `DECLARE calls_to_archive NO SCROLL CURSOR WITH HOLD FOR
       SELECT jobs.id FROM jobs WHERE ${calls} ORDER BY payer, finished_at, id`,
  )
  await sql.query('COMMIT')
  try {
    for (;;) {
      const { rows } = await sql.query<{ id: string }>(`FETCH ${CALLS_OF_OBJECT} FROM calls_to_archive`)
      if (rows.length === 0) return
      yield rows.map(({ id }) => id)
    }
  } finally {
    await sql.query('CLOSE calls_to_archive')
  }
}
