import pg from 'pg'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Pool } from '#shared/adapters/postgres/pool.ts'
import { createSettlementStore } from '#shared/adapters/postgres/settlement/settlement-store.ts'
import type { ClaimedJob } from '#shared/jobs/job.ts'
import type { SettlementStore } from '#shared/jobs/settlement-store.ts'
import { completionOf, jobInState, storedState } from '../../support/ledger/job-in-state.ts'
import { AMPLE_FUNDS, newTestJob } from '../../support/ledger/new-test-job.ts'
import { settlingBatch } from '../../support/ledger/settling-batch.ts'
import { testAuthorization, testPermit } from '../../support/ledger/test-authorization.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'
import { until } from '../../support/until.ts'

let ledger: TestLedger
beforeAll(async () => {
  ledger = await createTestLedger()
})
afterAll(() => ledger.close())

/** Returns a store, and the statements that it has sent. */
function countedStore(): { store: SettlementStore; statements: () => number } {
  let statements = 0
  const query = (...call: Parameters<Pool['query']>) => {
    statements += 1
    return ledger.pool.query(...call)
  }
  const pool = new Proxy(ledger.pool, {
    get: (target, name) => (name === 'query' ? query : Reflect.get(target, name, target)),
  })
  return { store: createSettlementStore(pool), statements: () => statements }
}

async function settlingJobs(count: number): Promise<ClaimedJob[]> {
  return (await settlingBatch(ledger, count)).map(({ job }) => job)
}

it('completes jobs that are proven together by one statement, and notifies of each once', async () => {
  const jobs = await settlingJobs(32)
  const completions = await Promise.all(jobs.map((job) => completionOf(ledger, job)))
  const listener = new pg.Client({ connectionString: ledger.url })
  await listener.connect()
  const notified: string[] = []
  listener.on('notification', ({ payload = '' }) => notified.push(payload))
  await listener.query('LISTEN farebox_outcomes')
  const { store, statements } = countedStore()
  const written = await Promise.all(
    jobs.map(async (job, index) => {
      const completion = completions[index]
      return completion && (await store.completeJob(job, completion))
    }),
  )
  expect(new Set(written)).toEqual(new Set(['written']))
  expect(statements()).toBe(1)
  await until(() => Promise.resolve(notified.length >= jobs.length))
  await listener.query('SELECT 1')
  await listener.end()
  expect(notified.toSorted()).toEqual(jobs.map(({ id }) => id).toSorted())
  const rows = await ledger.sql<{ receipt: string; settled: string; response: string; job_id: string }>(
    `SELECT jobs.id AS job_id, receipts.body ->> 'transaction' AS receipt, settlements.transaction_hash AS settled,
       payment_response ->> 'transaction' AS response
     FROM jobs JOIN receipts ON receipts.id = jobs.receipt_id JOIN settlements ON settlements.job_id = jobs.id
     WHERE jobs.id = ANY($1) AND jobs.state = 'completed' AND settlements.state = 'confirmed'`,
    [jobs.map(({ id }) => id)],
  )
  // Each has its own, not its neighbor's.
  const own = completions.map(({ transactionHash }, index) => ({
    job_id: jobs[index]?.id,
    receipt: transactionHash,
    settled: transactionHash,
    response: transactionHash,
  }))
  expect(new Set(rows)).toEqual(new Set(own))
})

it('completes the others when one of them has no open settlement or a stale fence', async () => {
  const jobs = await settlingJobs(7)
  const [bad, late, ...good] = jobs
  if (!bad || !late) throw new Error('seven jobs')
  const other = await jobInState(ledger, 'settling')
  const { settlementId } = await completionOf(ledger, other)
  const complete = async (job: ClaimedJob, changes = {}) =>
    await ledger.settlement.completeJob(job, { ...(await completionOf(ledger, job)), ...changes })
  const outcomes = await Promise.allSettled([
    ...good.slice(0, 2).map((job) => complete(job)),
    complete(bad, { settlementId }),
    complete({ ...late, fence: late.fence - 1n }),
    ...good.slice(2).map((job) => complete(job)),
  ])
  const values = outcomes.map((outcome) => (outcome.status === 'fulfilled' ? outcome.value : outcome.reason))
  const written = 'written'
  const refused = new Error(`job ${bad.id} has no open settlement ${settlementId}`)
  expect(values).toEqual([written, written, refused, 'stale', written, written, written])
  expect((await storedState(ledger, bad.id)).state).toBe('settling')
  expect((await storedState(ledger, late.id)).state).toBe('settling')
  expect(await ledger.sql('SELECT 1 FROM receipts WHERE job_id = ANY($1)', [[bad.id, late.id]])).toEqual([])
})

it('completes a job once when two processes prove it at the same time', async () => {
  const jobs = await settlingJobs(5)
  const stores = [ledger.settlement, createSettlementStore(ledger.pool)]
  const outcomes = await Promise.all(
    stores.flatMap((store, index) =>
      (index === 0 ? jobs : jobs.toReversed()).map(async (job) =>
        store.completeJob(job, await completionOf(ledger, job)),
      ),
    ),
  )
  expect(outcomes.toSorted()).toEqual([...jobs.map(() => 'stale'), ...jobs.map(() => 'written')])
})

it('releases the permits of those that have one, and of no other', async () => {
  const withItsPermit = () => {
    const { payer } = testAuthorization()
    const authorization = testAuthorization({ payer, gasSponsoring: testPermit(payer, 0n) })
    return jobInState(
      ledger,
      'settling',
      newTestJob({ authorization, exposure: { ...AMPLE_FUNDS, needsPermit: true } }),
    )
  }
  const [withPermit, open] = [await withItsPermit(), await withItsPermit()]
  const without = await jobInState(ledger, 'settling')
  await Promise.all(
    [withPermit, without].map(async (job) => ledger.settlement.completeJob(job, await completionOf(ledger, job))),
  )
  const rows = await ledger.sql<{ id: string; released: boolean }>(
    'SELECT job_id AS id, permit_released_at IS NOT NULL AS released FROM authorizations WHERE job_id = ANY($1)',
    [[withPermit.id, without.id, open.id]],
  )
  expect(Object.fromEntries(rows.map(({ id, released }) => [id, released]))).toEqual({
    [withPermit.id]: true,
    [without.id]: false,
    [open.id]: false,
  })
})
