import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createLedgerFiguresStore, createSettlementStore } from '#shared/adapters/postgres/stores.ts'
import {
  createTestLedger,
  jobInState,
  newTestJob,
  paidAfresh,
  type TestLedger,
} from '../../support/ledger/test-ledger.ts'

/** Whole-table scans since the last call. The planner makes one only where no index would do. */
let scansSince: () => Promise<number>
let ledger: TestLedger
beforeAll(async () => {
  // One connection, so that its setting holds and its counts are complete.
  ledger = await createTestLedger(1)
  await ledger.sql('SET enable_seqscan = off')
  let seen = 0
  scansSince = async () => {
    await ledger.sql('SELECT pg_stat_force_next_flush()')
    const [row] = await ledger.sql<{ scans: number }>(
      `SELECT sum(seq_scan)::int AS scans FROM pg_stat_user_tables
       WHERE schemaname = 'public' AND relname NOT IN ('settlement_accounts', 'schema_migrations')`,
    )
    const since = (row?.scans ?? 0) - seen
    seen = row?.scans ?? 0
    return since
  }
})
afterAll(() => ledger.close())

describe('no table that grows with the jobs is read as a whole', () => {
  it('when a withheld result is paid for', async () => {
    const request = newTestJob()
    await jobInState(ledger, 'settlement_failed', request)
    const paid = paidAfresh(request)
    await scansSince()
    expect(await ledger.admission.acceptJob(paid)).toMatchObject({ outcome: 'settles_again' })
    expect(await scansSince()).toBe(0)
  })

  it('by the sweepers', async () => {
    const { execution } = ledger
    const settlements = createSettlementStore(ledger.pool)
    await scansSince()
    await execution.takeDueJobs(['settling'], 200)
    await execution.eraseExpiredUploads(200)
    await execution.findExpiredMedia(200)
    await execution.expireResults(0, 200)
    await execution.forgetExpiredChallenges(200)
    await settlements.findUnfinalBlocks(0n)
    await settlements.readUnfinal(0n, 200)
    await settlements.readTotals()
    expect(await scansSince()).toBe(0)
  })

  it('for the metrics', async () => {
    const figures = createLedgerFiguresStore(ledger.pool)
    await scansSince()
    await figures.readLedgerTotals()
    await figures.rollUpTotals()
    expect(await scansSince()).toBe(0)
  })
})
