import pg from 'pg'
import { rollUpHours } from '#shared/ledger/reports/roll-up-hours.ts'
import { bareTables } from './bare-tables.ts'
import { refreshTotals } from './refresh-totals.ts'
import {
  CHUNK,
  FIRST_FAILED,
  FIRST_IN_REVIEW,
  FIRST_WITHHELD,
  HISTORY_ROWS,
  HISTORY_TABLES,
  historyId,
} from './rows.ts'

export interface HistoryOptions {
  readonly calls: number
  /** Over how many days the calls are spread, up to half an hour ago. */
  readonly days?: number
  readonly payers?: number
  /** The recipient in the receipts. */
  readonly payTo?: string
  /** The version that the calls were quoted with. */
  readonly catalogVersion?: string
  /** Addresses of the payers with most calls, first the one with a tenth of all. Their newest calls are all completed. */
  readonly wallets?: readonly string[]
  /**
   * How many of the newest calls have rows of full size; default all. The others have what stays of the documents of an
   * archived call, so that many millions of calls fit on a disk; the documents themselves are nowhere.
   */
  readonly wholeCalls?: number
  /** For how many days results are kept; default 6. */
  readonly resultDays?: number
  /** How many connections write at once; default 1. */
  readonly connections?: number
  /** Receives one line for each step. */
  readonly onProgress?: (line: string) => void
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
 * Writes before the indexes and constraints exist and creates them afterwards, which checks all rows: one insertion at a
 * time would take several times as long.
 */
export async function writeHistory(databaseUrl: string, options: HistoryOptions): Promise<void> {
  const { connections = 1, onProgress } = options
  const clients = await Promise.all(Array.from({ length: connections }, () => openWriter(databaseUrl)))
  const [client] = clients
  if (client === undefined) throw new Error('at least one connection must write')
  const step = async (name: string, work: () => Promise<unknown>) => {
    const startedAt = performance.now()
    await work()
    onProgress?.(`${name}: ${((performance.now() - startedAt) / 1000).toFixed(0)} s`)
  }
  try {
    const removed = await bareTables(client)
    await step('rows', () => writeRows(clients, options))
    // Of one table at a time on each connection: adding a constraint locks it.
    await step('keys', () => inTurns(clients, tablesOf(removed.keys)))
    await step('indexes', () => inTurns(clients, tablesOf(removed.indexes)))
    await step('foreign keys', async () => {
      for (const { text } of removed.foreignKeys) await client.query(text)
      await inTurns(clients, tablesOf(removed.foreignKeyChecks))
    })
    await step('statistics', () =>
      inTurns(
        clients,
        HISTORY_TABLES.map((table) => [`VACUUM ANALYZE ${table}`]),
      ),
    )
    await step('totals', async () => {
      await refreshTotals(client)
      while ((await rollUpHours(client, 24)) > 0);
    })
    await client.query('CHECKPOINT')
  } finally {
    await Promise.all(clients.map((each) => each.end()))
  }
}

async function openWriter(databaseUrl: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: databaseUrl })
  await client.connect()
  // No trigger runs.
  await client.query("SET session_replication_role = replica; SET synchronous_commit = off; SET work_mem = '256MB'")
  await client.query("SET maintenance_work_mem = '1GB'; SET jit = off")
  return client
}

/** Writes the calls of one chunk after the other on each connection. */
async function writeRows(clients: readonly pg.Client[], options: HistoryOptions): Promise<void> {
  const { calls, days = 90, payers = 4000, catalogVersion = 'catalog-history', wallets = [] } = options
  const { payTo = `0x${'9'.repeat(40)}`, wholeCalls = calls, resultDays = 6, onProgress } = options
  const writtenAt = new Date()
  const starts = Array.from({ length: Math.floor(calls / CHUNK) + 1 }, (_, chunk) => Math.max(1, chunk * CHUNK))
  await takeTurns(clients, starts, async (client, start) => {
    const end = Math.min(calls, Math.floor(start / CHUNK) * CHUNK + CHUNK - 1)
    const parameters = [calls, days, payers, catalogVersion, start, end, wholeCalls, wallets, resultDays, writtenAt]
    await client.query(HISTORY_ROWS.calls, parameters)
    await client.query('ANALYZE history')
    for (const table of HISTORY_TABLES) await client.query(HISTORY_ROWS[table].replaceAll(':pay_to', `'${payTo}'`))
    await client.query('DROP TABLE history')
    onProgress?.(`calls to ${end} of ${calls}`)
  })
}

/** Runs each list of statements on the next connection that is free. */
function inTurns(clients: readonly pg.Client[], lists: readonly (readonly string[])[]): Promise<void> {
  return takeTurns(clients, lists, async (client, list) => {
    for (const statement of list) await client.query(statement)
  })
}

async function takeTurns<T>(
  clients: readonly pg.Client[],
  items: readonly T[],
  work: (client: pg.Client, item: T) => Promise<void>,
): Promise<void> {
  const waiting = [...items]
  await Promise.all(
    clients.map(async (client) => {
      for (let item = waiting.shift(); item !== undefined; item = waiting.shift()) await work(client, item)
    }),
  )
}

/** Groups statements by the table that they change. */
function tablesOf(statements: readonly { readonly table: string; readonly text: string }[]): readonly string[][] {
  return [...Map.groupBy(statements, ({ table }) => table).values()].map((all) => all.map(({ text }) => text))
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
           LATERAL (SELECT CASE sample % 6 WHEN 0 THEN spread - spread % 10 + 10 WHEN 1 THEN spread - spread % 10000 + ${FIRST_IN_REVIEW}
             WHEN 2 THEN spread - spread % 10000 + ${FIRST_WITHHELD}
             WHEN 3 THEN spread - spread % 10000 + ${FIRST_FAILED} ELSE spread + 1 END AS number) AS numbers) AS sampled
       JOIN jobs USING (id) LEFT JOIN settlements ON settlements.job_id = jobs.id`,
      [count],
    )
    return rows
  } finally {
    await client.end()
  }
}
