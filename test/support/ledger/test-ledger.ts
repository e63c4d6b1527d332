import type pg from 'pg'
import {
  type AcceptanceOptions,
  type AcceptanceStore,
  createAcceptanceStore,
} from '#shared/ledger/acceptance/acceptance-store.ts'
import { createPermitStore, type PermitStore } from '#shared/ledger/allowances/permit-store.ts'
import { createExecutionStore, type ExecutionStore } from '#shared/ledger/execution/execution-store.ts'
import { createPool, type Pool } from '#shared/ledger/pool.ts'
import { createReportsStore, type ReportsStore } from '#shared/ledger/reports/reports-store.ts'
import { createRetentionStore, type RetentionStore } from '#shared/ledger/retention/retention-store.ts'
import { createSettlementStore, type SettlementStore } from '#shared/ledger/settlement/settlement-store.ts'
import { atomicFromDollars } from '#shared/money/atomic-amount.ts'
import { PATIENCE_MS } from '../patience.ts'
import { createTestDatabase, type TestDatabase } from './test-database.ts'

/** The default budget of uncharged work, and no limit on new payers, which every test's payers are. */
export const TEST_LIMITS: AcceptanceOptions = {
  budget: {
    windowSeconds: 3600,
    perPayer: atomicFromDollars('1'),
    maximumForgiven: atomicFromDollars('20'),
  },
  newPayers: atomicFromDollars('1000000'),
}

/** The ledger over a separate database: every store, and plain SQL. */
export interface TestLedger {
  readonly url: string
  readonly pool: Pool
  readonly acceptance: AcceptanceStore
  readonly execution: ExecutionStore
  readonly settlement: SettlementStore
  readonly permits: PermitStore
  readonly retention: RetentionStore
  readonly reports: ReportsStore
  sql<Row extends pg.QueryResultRow>(statement: string, parameters?: readonly unknown[]): Promise<Row[]>
  /** Returns a digest that changes when any row of any of the ledger's tables changes. */
  fingerprint(): Promise<string>
  close(): Promise<void>
}

/** Creates a ledger over a new database. At most `maximumConnections` statements run concurrently. */
export async function createTestLedger(maximumConnections = 24): Promise<TestLedger> {
  return openTestLedger(await createTestDatabase(), maximumConnections)
}

/** Opens a ledger over an existing database; `close` drops it. */
export function openTestLedger(database: TestDatabase, maximumConnections: number): TestLedger {
  const pool = createPool({
    connectionString: database.url,
    maximumConnections,
    applicationName: 'farebox ledger test',
    onError: () => undefined,
    connectTimeoutMs: PATIENCE_MS,
  })
  // A pool closes a connection that was idle for ten seconds, and with it what a test set on a ledger's only one.
  pool.options.min = 1
  const sql = async <Row extends pg.QueryResultRow>(statement: string, parameters: readonly unknown[] = []) =>
    (await pool.query<Row>(statement, [...parameters])).rows
  return {
    url: database.url,
    pool,
    acceptance: createAcceptanceStore(pool, TEST_LIMITS),
    execution: createExecutionStore(pool, TEST_LIMITS.budget),
    settlement: createSettlementStore(pool),
    permits: createPermitStore(pool),
    retention: createRetentionStore(pool),
    reports: createReportsStore(pool),
    sql,
    fingerprint: () => fingerprint(sql),
    close: async () => {
      await pool.end()
      await database.drop()
    },
  }
}

async function fingerprint(sql: TestLedger['sql']): Promise<string> {
  const tables = await sql<{ name: string }>(
    "SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public' ORDER BY tablename",
  )
  const parts = tables.map(
    ({ name }) => `SELECT '${name}' AS name, md5(coalesce(string_agg(row::text, '|' ORDER BY row::text), '')) AS digest
      FROM ${name} AS row`,
  )
  const rows = await sql<{ name: string; digest: string }>(parts.join(' UNION ALL '))
  return rows.map(({ name, digest }) => `${name} ${digest}`).join('\n')
}
