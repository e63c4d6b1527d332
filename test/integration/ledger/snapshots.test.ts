import pg from 'pg'
import { Registry } from 'prom-client'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createPool, type Pool } from '#shared/ledger/pool.ts'
import { createReportsStore, type ReportsStore } from '#shared/ledger/reports/reports-store.ts'
import { readReport } from '../../../infra/commands/ledger/read-report.ts'
import { serviceUrlOf } from '../../../infra/sandbox/postgres/service-connection.ts'
import { addSnapshotMetrics } from '../../../workers/telemetry/snapshot-metrics.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'

const WRITES = 25

let ledger: TestLedger
let other: pg.Client
beforeAll(async () => {
  ledger = await createTestLedger(2)
})
afterAll(() => ledger.close())
beforeEach(async () => {
  other = new pg.Client({ connectionString: ledger.url, application_name: 'somebody else' })
  await other.connect()
})
afterEach(() => other.end())

const write = async () => {
  for (let count = 0; count < WRITES; count += 1) await ledger.sql('SELECT pg_current_xact_id()')
}

describe('the age of the oldest snapshot', () => {
  let service: Pool
  let reports: ReportsStore
  beforeAll(() => {
    const name = { connectionString: serviceUrlOf(ledger.url), applicationName: 'farebox snapshot test' }
    service = createPool({ ...name, maximumConnections: 1, onError: () => undefined })
    reports = createReportsStore(service)
  })
  afterAll(() => service.end())

  it('is 0 while no other session of the database is in a transaction', async () => {
    await write()
    expect(await reports.readOldestSnapshot()).toBe(0)
  })

  it.each([
    ['a snapshot of a dump', 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM jobs'],
    ['a cursor', 'BEGIN; DECLARE rows CURSOR FOR SELECT id FROM jobs; FETCH 1 FROM rows'],
    ['an idle transaction that wrote', 'BEGIN; SELECT pg_current_xact_id()'],
  ])('counts the transactions since %s, which another role has open', async (_, statements) => {
    await other.query(statements)
    await write()
    const registry = new Registry()
    addSnapshotMetrics(registry, reports)
    const [, age] = /^farebox_database_oldest_snapshot_transactions (\d+)$/m.exec(await registry.metrics()) ?? []
    expect(Number(age)).toBeGreaterThanOrEqual(WRITES)
    await other.query('ROLLBACK')
    expect(await registry.metrics()).toMatch(/^farebox_database_oldest_snapshot_transactions 0$/m)
  })

  it('leaves out an idle transaction that only read under READ COMMITTED, which holds back nothing', async () => {
    await other.query('BEGIN; SELECT count(*) FROM jobs')
    await write()
    expect(await reports.readOldestSnapshot()).toBe(0)
  })

  it('leaves out the snapshots of other databases', async () => {
    const elsewhere = new URL(ledger.url)
    elsewhere.pathname = '/postgres'
    const client = new pg.Client({ connectionString: elsewhere.href })
    await client.connect()
    try {
      await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class')
      await write()
      expect(await reports.readOldestSnapshot()).toBe(0)
    } finally {
      await client.end()
    }
  })
})

describe('the report', () => {
  const period = { from: '2026-01-01T00:00:00Z', to: '2026-02-01T00:00:00Z' }

  it('holds its snapshot no longer than it may, and says what to do', async () => {
    await other.query('BEGIN; LOCK TABLE settlements')
    await expect(readReport(ledger.pool, period, null, 300)).rejects.toThrow(
      'the report was not done after 0.3 s, the longest that it may hold back PostgreSQL’s vacuum; ask for fewer days with --from and --to',
    )
    await other.query('ROLLBACK')
    await expect(readReport(ledger.pool, period, null)).resolves.toMatchObject({ revenue: { count: 0 } })
  })
})
