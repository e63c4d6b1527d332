import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createPool, type Pool } from '#shared/adapters/postgres/pool.ts'
import { readAbsorbedCost } from '#shared/adapters/postgres/reports/absorbed-cost.ts'
import { readChargesByModel } from '#shared/adapters/postgres/reports/charges-by-model.ts'
import { readContradictions } from '#shared/adapters/postgres/reports/contradictions.ts'
import { readSettlementsOutsideBlocks } from '#shared/adapters/postgres/reports/ledger-settlements.ts'
import { readPaymentParties } from '#shared/adapters/postgres/reports/payment-parties.ts'
import type { LedgerPeriod } from '#shared/adapters/postgres/reports/period.ts'
import { readRevenue } from '#shared/adapters/postgres/reports/revenue.ts'
import { rollUpHours } from '#shared/adapters/postgres/reports/roll-up-hours.ts'
import { readSettlementGas } from '#shared/adapters/postgres/reports/settlement-gas.ts'
import { readMinedPermits, readSponsoredPermits } from '#shared/adapters/postgres/reports/sponsored-permits.ts'
import { readUnchargedFailures } from '#shared/adapters/postgres/reports/uncharged-failures.ts'
import { readUnchargedWork } from '#shared/adapters/postgres/reports/uncharged-work.ts'
import { LEAST_ID } from '../../../infra/ledger/least-id.ts'
import { writeHistory } from '../../support/ledger/history/write-history.ts'
import { createTestDatabase, type TestDatabase } from '../../support/ledger/test-database.ts'

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
  'sponsored permits': readSponsoredPermits,
  contradictions: readContradictions,
  'the parties of all payments': readPaymentParties,
  'a page of settlements': (pool, period) =>
    readSettlementsOutsideBlocks(pool, period, NO_BLOCKS, { after: LEAST_ID, limit: 50 }),
  'an hour that is added to the totals': (pool) => rollUpHours(pool),
  'a page of permits': (pool, period) => readMinedPermits(pool, period, { after: LEAST_ID, limit: 50 }),
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
