import { Registry } from 'prom-client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createLedgerFiguresStore } from '#shared/adapters/postgres/stores.ts'
import type { JobState } from '#shared/jobs/job.ts'
import type { LedgerFiguresStore } from '#shared/jobs/ledger-figures.ts'
import { addLedgerMetrics } from '../../../workers/telemetry/ledger-metrics.ts'
import { acceptTestJob, createTestLedger, jobInState, type TestLedger } from '../../support/ledger/test-ledger.ts'

/** What the test ledger's jobs are priced at, and charged. */
const PRICE = 5034n

let ledger: TestLedger
let figures: LedgerFiguresStore
beforeAll(async () => {
  ledger = await createTestLedger(4)
  figures = createLedgerFiguresStore(ledger.pool)
  // What these tests put into the past is not rolled up yet.
  await ledger.sql("UPDATE ledger_totals SET through = '-infinity'")
})
afterAll(() => ledger.close())

async function endedAgo(state: JobState, minutes: number): Promise<void> {
  const { id } = await jobInState(ledger, state)
  const ago = `now() - make_interval(mins => ${minutes})`
  await ledger.sql(`UPDATE jobs SET finished_at = ${ago} WHERE id = $1`, [id])
  await ledger.sql(`UPDATE upstream_attempts SET finished_at = ${ago} WHERE job_id = $1`, [id])
}

/** A job whose worker was lost during the call. */
async function lostAgo(minutes: number): Promise<void> {
  await endedAgo('failed', minutes)
  await ledger.sql("UPDATE upstream_attempts SET state = 'failed_ambiguous' WHERE state = 'failed_definite'")
}

test('an empty ledger has every queue, and nothing in any', async () => {
  const { queues, ...others } = await figures.readLedgerTotals()
  expect(others).toEqual({
    openExposure: 0n,
    charged: { count: 0, total: 0n },
    ambiguous: { count: 0, total: 0n },
    withheld: { count: 0, total: 0n },
    inReview: 0,
  })
  expect([...queues.keys()]).toEqual(['text', 'images', 'speech', 'transcriptions', 'settlement'])
  for (const queue of queues.values())
    expect(queue).toEqual({ waiting: 0, running: 0, putOff: 0, oldestWaitingSeconds: 0 })
})

test('unfinished jobs stand in the queue that carries them, by whether somebody works on them', async () => {
  const waiting = await acceptTestJob(ledger)
  await ledger.sql("UPDATE jobs SET run_after = now() - interval '10 minutes' WHERE id = $1", [waiting])
  await acceptTestJob(ledger)
  await jobInState(ledger, 'generating')
  const lost = await jobInState(ledger, 'settling')
  await ledger.sql('UPDATE jobs SET lease_expires_at = now() WHERE id = $1', [lost.id])
  const later = await jobInState(ledger, 'generated')
  await ledger.execution.releaseJob(later, 60_000)
  const { queues, openExposure } = await figures.readLedgerTotals()
  const transcriptions = queues.get('transcriptions')
  expect(transcriptions).toMatchObject({ waiting: 2, running: 1, putOff: 0 })
  expect(transcriptions?.oldestWaitingSeconds).toBeGreaterThanOrEqual(600)
  expect(transcriptions?.oldestWaitingSeconds).toBeLessThan(900)
  expect(queues.get('settlement')).toMatchObject({ waiting: 1, running: 0, putOff: 1 })
  expect(openExposure).toBe(5n * PRICE)
})

test('totals stay what they are when they are rolled up, by however many at once', async () => {
  await endedAgo('completed', 300)
  await endedAgo('completed', 15)
  await endedAgo('completed', 1)
  await lostAgo(300)
  await lostAgo(1)
  await endedAgo('settlement_failed', 300)
  await endedAgo('review', 300)
  const totals = async () => {
    const { charged, ambiguous, withheld, inReview } = await figures.readLedgerTotals()
    return { charged, ambiguous, withheld, inReview }
  }
  const before = await totals()
  expect(before).toEqual({
    charged: { count: 3, total: 3n * PRICE },
    ambiguous: { count: 2, total: 2n * PRICE },
    withheld: { count: 1, total: PRICE },
    inReview: 1,
  })
  const moved = await Promise.all(Array.from({ length: 4 }, () => figures.rollUpTotals()))
  expect(moved.toSorted((left, right) => left - right)).toEqual([0, 0, 0, 2])
  expect(await ledger.sql('SELECT charged_jobs, ambiguous_attempts FROM ledger_totals')).toEqual([
    { charged_jobs: '2', ambiguous_attempts: '1' },
  ])
  expect(await totals()).toEqual(before)
  expect(await figures.rollUpTotals()).toBe(0)
  for (const column of ['ledger_totals SET through', 'jobs SET finished_at', 'upstream_attempts SET finished_at'])
    await ledger.sql(`UPDATE ${column} = ${column.split(' ').at(-1)} - interval '20 minutes'`)
  expect(await figures.rollUpTotals()).toBe(1)
  expect(await totals()).toEqual(before)
})

test('a ledger that cannot be read is said to be so, and shows no figure', async () => {
  const registry = new Registry()
  addLedgerMetrics(registry, { readLedgerTotals: () => figures.readLedgerTotals() })
  expect(await registry.metrics()).toMatch(/^farebox_jobs_in_review 1$/m)
  const other = new Registry()
  addLedgerMetrics(other, { readLedgerTotals: () => ledger.sql('SELECT 1 / 0') as never })
  const text = await other.metrics()
  expect(text).toMatch(/^farebox_ledger_readable 0$/m)
  expect(text.match(/^farebox_.*$/gm)).toEqual(['farebox_ledger_readable 0'])
})
