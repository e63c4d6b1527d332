import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createPool, type Pool } from '#shared/ledger/pool.ts'
import { readAbsorbedCost, readUnchargedFailures, readUnchargedWork } from '#shared/ledger/reports/absorbed-cost.ts'
import { readContradictions } from '#shared/ledger/reports/contradictions.ts'
import { readSettlementsOutsideBlocks } from '#shared/ledger/reports/ledger-settlements.ts'
import { readLedgerTotals } from '#shared/ledger/reports/ledger-totals.ts'
import { readPaymentParties } from '#shared/ledger/reports/payment-parties.ts'
import type { LedgerPeriod } from '#shared/ledger/reports/period.ts'
import { readChargesByModel, readRevenue } from '#shared/ledger/reports/revenue.ts'
import { rollUpHours } from '#shared/ledger/reports/roll-up-hours.ts'
import { readSettlementGas } from '#shared/ledger/reports/settlement-gas.ts'
import { receiptSchema } from '#shared/payment/receipt.ts'
import { LEAST_ID } from '../../../infra/commands/ledger/least-id.ts'
import { sampleHistory, writeHistory } from '../../support/ledger/history/write-history.ts'
import { createTestDatabase, type TestDatabase } from '../../support/ledger/test-database.ts'

const CALLS = 10_000
const CALLS_A_DAY = 400
/** The second ledger is as dense as the first one, and four times as long. */
const [SHORT_DAYS, LONG_DAYS] = [4, 16]
/** Pages of an index's upper levels, and calls on the edge of the day. */
const TOLERANCE = 40
const NO_BLOCKS = { first: 1n, last: 1n }
const REPORTS: Readonly<Record<string, (pool: Pool, period: LedgerPeriod) => Promise<unknown>>> = {
  'the revenue': readRevenue,
  'charges by model': readChargesByModel,
  'absorbed cost': readAbsorbedCost,
  'uncharged failures': readUnchargedFailures,
  'uncharged work': readUnchargedWork,
  'the gas of settlements': readSettlementGas,
  contradictions: readContradictions,
  'the parties of all payments': readPaymentParties,
  'a page of settlements': (pool, period) =>
    readSettlementsOutsideBlocks(pool, period, NO_BLOCKS, { after: LEAST_ID, limit: 50 }),
  'an hour that is added to the totals': (pool) => rollUpHours(pool, 24),
}
interface WrittenLedger {
  readonly database: TestDatabase
  readonly pool: Pool
}
async function writeLedger(days: number): Promise<WrittenLedger> {
  const database = await createTestDatabase()
  await writeHistory(database.url, { calls: CALLS_A_DAY * days, days, payers: 50 })
  // A single connection, so that the settings apply to every statement and the counts are complete.
  const pool = createPool({
    connectionString: database.url,
    maximumConnections: 1,
    applicationName: 'test',
    onError: () => undefined,
  })
  // As over many millions of calls, where reading a table or joining all of it costs too much.
  for (const method of ['seqscan', 'hashjoin', 'mergejoin']) await pool.query(`SET enable_${method} = off`)
  return { database, pool }
}
/** Returns how many rows and index entries were ever read. */
async function rowsRead(pool: Pool): Promise<number> {
  await pool.query('SELECT pg_stat_force_next_flush()')
  const { rows } = await pool.query<{ read: string }>(
    `SELECT (SELECT sum(seq_tup_read) FROM pg_stat_user_tables WHERE schemaname = 'public' AND relname <> 'settlement_accounts')
       + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE schemaname = 'public') AS read`,
  )
  return Number(rows[0]?.read)
}

describe('a written history', () => {
  let database: TestDatabase
  let client: pg.Client
  let indexes: readonly unknown[]
  let constraints: readonly unknown[]
  const readIndexes = async () =>
    (await client.query("SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY indexdef")).rows
  const readConstraints = async () =>
    (
      await client.query(
        `SELECT conrelid::regclass AS "table", conname AS name, pg_get_constraintdef(oid) AS definition FROM pg_constraint
         WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2`,
      )
    ).rows
  const count = async (statement: string) =>
    Number((await client.query<{ count: string }>(`SELECT count(*) ${statement}`)).rows[0]?.count)
  beforeAll(async () => {
    database = await createTestDatabase()
    client = new pg.Client({ connectionString: database.url })
    await client.connect()
    indexes = await readIndexes()
    constraints = await readConstraints()
    await writeHistory(database.url, { calls: CALLS })
  })
  afterAll(async () => {
    await client.end()
    await database.drop()
  })

  it('leaves indexes and constraints as they were', async () => {
    expect(await readIndexes()).toEqual(indexes)
    expect(await readConstraints()).toEqual(constraints)
  })

  it('has receipts as they are sent to payers', async () => {
    const { rows } = await client.query<{ body: unknown }>('SELECT body FROM receipts ORDER BY id LIMIT 100')
    for (const { body } of rows) expect(receiptSchema.safeParse(body).error).toBeUndefined()
  })

  it('breaks no foreign key, although none is checked while it is written', async () => {
    const { rows } = await client.query<{ child: string; parent: string; pairs: string; columns: string }>(
      `SELECT conrelid::regclass::text AS child, confrelid::regclass::text AS parent,
         string_agg(format('child.%I = parent.%I', own.attname, other.attname), ' AND ') AS pairs,
         string_agg(format('child.%I', own.attname), ', ') AS columns
       FROM pg_constraint, unnest(conkey, confkey) AS pair (own_number, other_number)
       JOIN pg_attribute AS own ON own.attnum = own_number
       JOIN pg_attribute AS other ON other.attnum = other_number
       WHERE contype = 'f' AND own.attrelid = conrelid AND other.attrelid = confrelid
       GROUP BY pg_constraint.oid, conrelid, confrelid`,
    )
    expect(rows.length).toBeGreaterThan(15)
    for (const { child, parent, pairs, columns } of rows) {
      const orphans = `FROM ${child} AS child WHERE num_nulls(${columns}) = 0
        AND NOT EXISTS (SELECT FROM ${parent} AS parent WHERE ${pairs})`
      expect([child, pairs, await count(orphans)]).toEqual([child, pairs, 0])
    }
  })

  it('settles most in batches of up to eight, each with its transactions, and some singly all the time', async () => {
    expect(await count('FROM settlements WHERE batch_id IS NOT NULL')).toBeGreaterThan(CALLS * 0.75)
    expect(await count('FROM settlement_batches WHERE size = 8')).toBeGreaterThan(CALLS * 0.06)
    const sinceBatches = 'signed_at > (SELECT min(signed_at) FROM settlements WHERE batch_id IS NOT NULL)'
    expect(await count(`FROM settlements WHERE batch_id IS NULL AND ${sinceBatches}`)).toBeGreaterThan(CALLS * 0.05)
    expect(
      await count(`FROM settlement_batches WHERE size <> (
          SELECT count(*) FROM settlements WHERE batch_id = settlement_batches.id)
        OR NOT EXISTS (SELECT FROM settlement_transactions WHERE batch_id = settlement_batches.id)`),
    ).toBe(0)
  })

  it('has every state that a finished call may have, and totals that agree with its rows', async () => {
    for (const [state, share] of Object.entries({ completed: 9650, failed: 300, settlement_failed: 47, review: 3 }))
      expect([state, await count(`FROM jobs WHERE state = '${state}'`)]).toEqual([state, share])
    expect((await readLedgerTotals(client)).charged.count).toBe(9650)
    const { rows } = await client.query<{ rolled: string; charged: string }>(
      `SELECT (SELECT sum(charged_total) FROM ledger_hours) AS rolled, sum(charge_amount) AS charged FROM jobs
       WHERE state = 'completed' AND finished_at < (SELECT max(hour) + interval '1 hour' FROM ledger_hours)`,
    )
    expect(rows[0]?.rolled).toBe(rows[0]?.charged)
  })

  it('is sampled from all of its time, with withheld results and items in review', async () => {
    const sample = await sampleHistory(database.url, 60)
    expect(new Set(sample.map(({ state }) => state))).toEqual(
      new Set(['completed', 'failed', 'settlement_failed', 'review']),
    )
  })
})

describe('a report of a day', () => {
  let ledgers: readonly WrittenLedger[]
  beforeAll(async () => {
    ledgers = [await writeLedger(SHORT_DAYS), await writeLedger(LONG_DAYS)]
  })
  afterAll(async () => {
    for (const { database, pool } of ledgers) {
      await pool.end()
      await database.drop()
    }
  })

  it.for(Object.keys(REPORTS))('reads as many rows for %s in a ledger that is four times as long', async (name) => {
    const period = { from: new Date(Date.now() - 24 * 3600 * 1000).toISOString(), to: new Date().toISOString() }
    const counts: number[] = []
    for (const { pool } of ledgers) {
      const before = await rowsRead(pool)
      await REPORTS[name]?.(pool, period)
      counts.push((await rowsRead(pool)) - before)
    }
    const [short = Number.NaN, long = Number.NaN] = counts
    expect(short).toBeGreaterThan(0)
    expect(long).toBeLessThan(short * 1.1 + TOLERANCE)
  })
})
