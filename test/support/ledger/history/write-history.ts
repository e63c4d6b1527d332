import pg from 'pg'
import { rollUpHours } from '#shared/adapters/postgres/reports/roll-up-hours.ts'
import { refreshTotals } from './refresh-totals.ts'
import { HISTORY_ROWS, HISTORY_TABLES, historyId } from './rows.ts'

export interface HistoryOptions {
  readonly calls: number
  /** Over how many days the calls are spread, up to half an hour ago. */
  readonly days?: number
  readonly payers?: number
  /** The recipient in the receipts. */
  readonly payTo?: string
  /** The version that the calls were quoted with. */
  readonly catalogVersion?: string
}

/** Identifiers of one written call, as a person would search for them. */
export interface HistoryCall {
  readonly jobId: string
  readonly requestId: string
  readonly payer: string
  readonly transaction: string | null
  readonly receiptId: string | null
  readonly idempotencyKey: string
  readonly state: string
}

/**
 * Writes the finished calls of months into a migrated, empty ledger: mostly completed ones, with failures, failovers,
 * debts, items in review, resolutions and audit rows in between, of few payers with many calls and many with few. Rows
 * have the sizes of real ones. The facilitators are nobody's, so no worker takes their transactions for its own.
 *
 * Writes before the indexes exist and creates them afterwards: one insertion at a time would take several times as long.
 */
export async function writeHistory(databaseUrl: string, options: HistoryOptions): Promise<void> {
  const { calls, days = 90, payers = 4000, catalogVersion = 'catalog-history' } = options
  const { payTo = `0x${'9'.repeat(40)}` } = options
  const client = new pg.Client({ connectionString: databaseUrl })
  await client.connect()
  try {
    // Foreign keys are not checked, and no trigger runs: the rows are right by construction.
    await client.query("SET session_replication_role = replica; SET synchronous_commit = off; SET work_mem = '256MB'")
    await client.query("SET maintenance_work_mem = '512MB'")
    const indexes = await dropIndexes(client)
    await client.query(HISTORY_ROWS.calls, [calls, days, payers, catalogVersion])
    await client.query('ANALYZE history')
    for (const table of HISTORY_TABLES) await client.query(HISTORY_ROWS[table].replaceAll(':pay_to', `'${payTo}'`))
    for (const { definition } of indexes) await client.query(definition)
    await refreshTotals(client)
    while ((await rollUpHours(client)) > 0);
    await client.query(`VACUUM ANALYZE ${HISTORY_TABLES.join(', ')}`)
    await client.query('CHECKPOINT')
  } finally {
    await client.end()
  }
}

/** Returns written calls that are spread over the whole history, with some of each state and of the payer with most calls. */
export async function sampleHistory(databaseUrl: string, count: number): Promise<readonly HistoryCall[]> {
  const client = new pg.Client({ connectionString: databaseUrl })
  await client.connect()
  try {
    const { rows } = await client.query<HistoryCall>(
      `SELECT jobs.id AS "jobId", request_id AS "requestId", jobs.payer, transaction_hash AS "transaction",
         receipt_id AS "receiptId", coalesce(idempotency_key, released_idempotency_key) AS "idempotencyKey", jobs.state
       FROM (SELECT ${historyId('job', 'number')} AS id
         FROM (SELECT max(account_nonce)::int AS last FROM settlements) AS written,
           generate_series(0, $1::integer - 1) AS sample,
           LATERAL (SELECT last / $1::integer * sample AS spread) AS places,
           LATERAL (SELECT CASE sample % 6 WHEN 0 THEN spread - spread % 10 + 10 WHEN 1 THEN spread - spread % 10000 + 9997
             WHEN 2 THEN spread - spread % 10000 + 9963 ELSE spread + 1 END AS number) AS numbers) AS sampled
       JOIN jobs USING (id) LEFT JOIN settlements ON settlements.job_id = jobs.id`,
      [count],
    )
    return rows
  } finally {
    await client.end()
  }
}

/** Drops the indexes of the written tables that belong to no constraint, and returns how to create them again. */
async function dropIndexes(client: pg.Client): Promise<readonly { definition: string }[]> {
  const { rows } = await client.query<{ name: string; definition: string }>(
    `SELECT indexrelid::regclass::text AS name, pg_get_indexdef(indexrelid) AS definition FROM pg_index
     WHERE indrelid = ANY($1::regclass[])
       AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid)`,
    [[...HISTORY_TABLES]],
  )
  for (const { name } of rows) await client.query(`DROP INDEX ${name}`)
  return rows
}
