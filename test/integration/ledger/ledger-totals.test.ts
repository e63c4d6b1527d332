import { Registry } from 'prom-client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { JobState } from '#shared/jobs/job.ts'
import { addLedgerMetrics } from '../../../workers/telemetry/ledger-metrics.ts'
import { acceptTestJob, claimTestJob, jobInState } from '../../support/ledger/job-in-state.ts'
import { TEST_PRICE } from '../../support/ledger/new-test-job.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'

let ledger: TestLedger
beforeAll(async () => {
  ledger = await createTestLedger(4)
  // Nothing of what these tests move into the past is rolled up yet.
  await ledger.sql("UPDATE ledger_totals SET through = '-infinity'")
})
afterAll(() => ledger.close())

/** Creates a job in `state` that finished `minutes` ago. */
async function endedAgo(state: JobState, minutes: number): Promise<void> {
  const { id } = await jobInState(ledger, state)
  const ago = `now() - make_interval(mins => ${minutes})`
  await ledger.sql(`UPDATE jobs SET finished_at = ${ago} WHERE id = $1`, [id])
  await ledger.sql(`UPDATE upstream_attempts SET finished_at = ${ago} WHERE job_id = $1`, [id])
}

/** Creates a job whose worker was lost during the provider call. */
async function lostAgo(minutes: number): Promise<void> {
  await endedAgo('failed', minutes)
  await ledger.sql("UPDATE upstream_attempts SET state = 'failed_ambiguous' WHERE state = 'failed_definite'")
}

/** Creates a job whose provider call came back empty. */
async function emptyAgo(minutes: number): Promise<void> {
  const job = await jobInState(ledger, 'generating')
  const failure = { code: 'provider_empty_output', reason: 'test', attempt: 'failed_empty' } as const
  await ledger.execution.failJob(job, failure)
  await ledger.sql(
    `UPDATE uncharged_work SET created_at = now() - make_interval(mins => ${minutes}) WHERE job_id = $1`,
    [job.id],
  )
}

const NONE = { count: 0, total: 0n }

test('reports every queue of an empty ledger with zeros', async () => {
  const { queues, ...others } = await ledger.reports.readLedgerTotals()
  expect(others).toEqual({
    openExposure: 0n,
    charged: { count: 0, total: 0n },
    ambiguous: { count: 0, total: 0n },
    withheld: { count: 0, total: 0n },
    uncharged: {
      empty_output: NONE,
      unknown_outcome: NONE,
      lost_call: NONE,
      rejected_request: NONE,
      replaced_result: NONE,
      reverted_settlement: NONE,
    },
    newPayerExposure: 0n,
    inReview: 0,
  })
  expect([...queues.keys()]).toEqual(['text', 'images', 'speech', 'transcriptions', 'settlement'])
  for (const queue of queues.values())
    expect(queue).toEqual({ waiting: 0, running: 0, deferred: 0, oldestWaitingSeconds: 0, oldestDeferredSeconds: 0 })
})

test('counts unfinished jobs by queue as waiting, running or deferred', async () => {
  const waiting = await acceptTestJob(ledger)
  await ledger.sql("UPDATE jobs SET run_after = now() - interval '10 minutes' WHERE id = $1", [waiting])
  await acceptTestJob(ledger)
  await jobInState(ledger, 'generating')
  const lost = await jobInState(ledger, 'settling')
  await ledger.sql('UPDATE jobs SET lease_expires_at = now() WHERE id = $1', [lost.id])
  const later = await jobInState(ledger, 'generated')
  await ledger.execution.deferJob(later, 60_000)
  const due = await acceptTestJob(ledger)
  await ledger.execution.deferJob(await claimTestJob(ledger, due), 0)
  const longAgo = "run_after = now() - interval '20 minutes', deferred_since = now() - interval '30 minutes'"
  await ledger.sql(`UPDATE jobs SET ${longAgo} WHERE id = $1`, [due])
  const { queues, openExposure } = await ledger.reports.readLedgerTotals()
  const transcriptions = queues.get('transcriptions')
  expect(transcriptions).toMatchObject({ waiting: 2, running: 1, deferred: 1 })
  expect(transcriptions?.oldestWaitingSeconds).toBeGreaterThanOrEqual(600)
  expect(transcriptions?.oldestWaitingSeconds).toBeLessThan(900)
  expect(transcriptions?.oldestDeferredSeconds).toBeGreaterThanOrEqual(1800)
  expect(queues.get('settlement')).toMatchObject({ waiting: 1, running: 0, deferred: 1 })
  expect(openExposure).toBe(6n * TEST_PRICE)
})

test('keeps totals unchanged when several workers roll them up concurrently', async () => {
  await endedAgo('completed', 300)
  await endedAgo('completed', 15)
  await endedAgo('completed', 1)
  await lostAgo(300)
  await lostAgo(1)
  await emptyAgo(300)
  await emptyAgo(15)
  await emptyAgo(1)
  await endedAgo('settlement_failed', 300)
  await endedAgo('review', 300)
  const totals = async () => {
    const { charged, ambiguous, withheld, uncharged, inReview } = await ledger.reports.readLedgerTotals()
    return { charged, ambiguous, withheld, empty: uncharged.empty_output, inReview }
  }
  const before = await totals()
  expect(before).toEqual({
    charged: { count: 3, total: 3n * TEST_PRICE },
    ambiguous: { count: 2, total: 2n * TEST_PRICE },
    withheld: { count: 1, total: TEST_PRICE },
    empty: { count: 3, total: 3n * TEST_PRICE },
    inReview: 1,
  })
  const moved = await Promise.all(Array.from({ length: 4 }, () => ledger.reports.rollUpTotals()))
  expect(moved.toSorted((left, right) => left - right)).toEqual([0, 0, 0, 2])
  expect(await ledger.sql('SELECT charged_jobs, ambiguous_attempts FROM ledger_totals')).toEqual([
    { charged_jobs: '2', ambiguous_attempts: '1' },
  ])
  expect(await ledger.sql('SELECT kind, count FROM uncharged_work_totals')).toEqual([
    { kind: 'empty_output', count: '2' },
  ])
  expect(await totals()).toEqual(before)
  expect(await ledger.reports.rollUpTotals()).toBe(0)
  const columns = [
    'ledger_totals SET through',
    'jobs SET finished_at',
    'upstream_attempts SET finished_at',
    'uncharged_work SET created_at',
  ]
  for (const column of columns)
    await ledger.sql(`UPDATE ${column} = ${column.split(' ').at(-1)} - interval '20 minutes'`)
  expect(await ledger.reports.rollUpTotals()).toBe(1)
  expect(await totals()).toEqual(before)
})

test('exposes only farebox_ledger_readable 0 when the ledger cannot be read', async () => {
  const registry = new Registry()
  addLedgerMetrics(registry, { readLedgerTotals: () => ledger.reports.readLedgerTotals() })
  expect(await registry.metrics()).toMatch(/^farebox_jobs_in_review 1$/m)
  const other = new Registry()
  addLedgerMetrics(other, { readLedgerTotals: () => ledger.sql('SELECT 1 / 0') as never })
  const text = await other.metrics()
  expect(text).toMatch(/^farebox_ledger_readable 0$/m)
  expect(text.match(/^farebox_.*$/gm)).toEqual(['farebox_ledger_readable 0'])
})
