import { Registry } from 'prom-client'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, test } from 'vitest'
import type { JobState } from '#shared/jobs/job.ts'
import { RESOLUTION_OUTCOMES } from '#shared/jobs/resolution.ts'
import { createMoneyStore } from '#shared/ledger/console/money-store.ts'
import { readDays } from '#shared/ledger/console/read-days.ts'
import { readMargins, readModelDays } from '#shared/ledger/reports/margin.ts'
import { rollUpHours } from '#shared/ledger/reports/roll-up-hours.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import { sumOfMargins } from '../../../operator/pages/ledger/day-result.ts'
import { addLedgerMetrics } from '../../../workers/telemetry/ledger-metrics.ts'
import { acceptTestJob, claimTestJob, jobInState } from '../../support/ledger/job-in-state.ts'
import { newTestJob, TEST_PRICE } from '../../support/ledger/new-test-job.ts'
import { settlingBatch } from '../../support/ledger/settling-batch.ts'
import { testAuthorization } from '../../support/ledger/test-authorization.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'

const ROLLED_UP_HOURS = 24

interface PaidCall {
  readonly at: string
  readonly isFinal: boolean
}
const PERIOD = { from: new Date('2026-03-01T00:00:00Z'), until: new Date('2026-03-04T00:00:00Z') }
const NONE = { count: 0, total: 0n }
const OPERATION = 'createTranscription'

describe('reports by day', () => {
  let ledger: TestLedger
  beforeEach(async () => {
    ledger = await createTestLedger()
  })

  afterEach(() => ledger.close())

  /** Stores a completed call whose times are `at`, with gas of 40, whose vendor bills 1200. */
  async function payCall({ at, isFinal }: PaidCall): Promise<string> {
    const job = await jobInState(ledger, 'completed', newTestJob({ authorization: testAuthorization() }))
    await ledger.sql('UPDATE jobs SET accepted_at = $2, finished_at = $2 WHERE id = $1', [job.id, at])
    await ledger.sql(
      `UPDATE settlements SET finished_at = $2, finalized_at = CASE WHEN $3 THEN now() END, gas_used = 1,
       effective_gas_price = 1, gas_cost = 40 WHERE job_id = $1`,
      [job.id, at, isFinal],
    )
    await ledger.sql('UPDATE upstream_attempts SET finished_at = $2, vendor_cost = 1200 WHERE job_id = $1', [
      job.id,
      at,
    ])
    return job.id
  }
  async function absorb(jobId: string, at: string): Promise<void> {
    await ledger.sql(
      `INSERT INTO uncharged_work (job_id, authorization_id, network, payer, kind, amount, is_new_payer, created_at)
     SELECT id, authorization_id, 'eip155:8453', payer, 'empty_output', 700, true, $2 FROM jobs WHERE id = $1`,
      [jobId, at],
    )
  }
  async function rollUpAll(): Promise<number> {
    let hours = 0
    for (let added = -1; added !== 0;) {
      added = await rollUpHours(ledger.pool, ROLLED_UP_HOURS)
      hours += added
    }
    return hours
  }
  it('sums each UTC day alike before and after its hours are rolled up', async () => {
    const first = await payCall({ at: '2026-03-01T23:59:59.999999Z', isFinal: true })
    await payCall({ at: '2026-03-02T00:00:00Z', isFinal: true })
    await payCall({ at: '2026-03-02T11:30:00Z', isFinal: true })
    await absorb(first, '2026-03-02T12:00:00Z')
    const expected = [
      { day: '2026-03-03', charged: { count: 0, amount: 0n }, settled: 0n, settlementGas: 0n, resolved: [] },
      {
        day: '2026-03-02',
        charged: { count: 2, amount: 10_068n },
        settled: 10_068n,
        notFinal: 0,
        settlementGas: 80n,
        vendorCost: 2400n,
        uncharged: { count: 1, amount: 700n },
      },
      { day: '2026-03-01', charged: { count: 1, amount: 5034n }, settled: 5034n, settlementGas: 40n },
    ]
    const live = await readDays(ledger.pool, PERIOD)
    expect(live).toMatchObject(expected)
    expect(await rollUpAll()).toBeGreaterThan(ROLLED_UP_HOURS)
    const [hours] = await ledger.sql<{ sum: string }>('SELECT sum(charged_jobs) FROM ledger_hours')
    expect(hours?.sum).toBe('3')
    expect(await readDays(ledger.pool, PERIOD)).toEqual(live)
  })

  it('rolls hours up without a gap, and each of them once by concurrent workers', async () => {
    await payCall({ at: '2026-03-01T05:00:00Z', isFinal: true })
    await Promise.all(Array.from({ length: 4 }, () => rollUpHours(ledger.pool, ROLLED_UP_HOURS)))
    await rollUpAll()
    const [hours] = await ledger.sql<{ count: number; span: number; first: Date; age: number }>(
      `SELECT count(*)::int AS count, (extract(epoch FROM max(hour) - min(hour)) / 3600)::int + 1 AS span,
       min(hour) AS first, extract(epoch FROM now() - max(hour))::int AS age FROM ledger_hours`,
    )
    expect(hours?.count).toBe(hours?.span)
    expect(hours?.first).toEqual(new Date('2026-03-01T05:00:00Z'))
    // The hour that is going on, and one that ended less than ten minutes ago, may still change.
    expect(hours?.age).toBeGreaterThanOrEqual(3600 + 600)
  })

  it('rolls no hour up before the settlements in it are final', async () => {
    await payCall({ at: '2026-03-01T05:00:00Z', isFinal: true })
    const jobId = await payCall({ at: '2026-03-03T07:20:00Z', isFinal: false })
    await rollUpAll()
    const newest = async () => (await ledger.sql<{ max: Date }>('SELECT max(hour) FROM ledger_hours'))[0]?.max
    expect(await newest()).toEqual(new Date('2026-03-03T06:00:00Z'))
    expect((await readDays(ledger.pool, PERIOD))[0]).toMatchObject({ day: '2026-03-03', settled: 5034n, notFinal: 1 })
    await ledger.sql(
      "UPDATE settlements SET state = 'lost', failure_reason = 'removed by a reorganization' WHERE job_id = $1",
      [jobId],
    )
    await rollUpAll()
    expect((await newest())?.getTime()).toBeGreaterThan(Date.parse('2026-03-03T07:00:00Z'))
    expect((await readDays(ledger.pool, PERIOD))[0]).toMatchObject({
      charged: { count: 1, amount: 5034n },
      settled: 0n,
      notFinal: 0,
    })
  })

  it('counts the gas of a batch that reverted on a day without anything else', async () => {
    const [first] = await settlingBatch(ledger, 2)
    await ledger.sql(
      `UPDATE settlement_batches SET reverted_at = '2026-01-20T10:00:00Z', reverted_gas_used = 1, reverted_gas_cost = 55
       WHERE id = $1`,
      [first?.settlement.batch?.id],
    )
    const day = { from: new Date('2026-01-20T00:00:00Z'), until: new Date('2026-01-21T00:00:00Z') }
    expect(await readDays(ledger.pool, day)).toMatchObject([{ day: '2026-01-20', settlementGas: 55n }])
  })

  it('counts the gas of a settlement that reverted, in the day and in what the period earned', async () => {
    const { id } = await jobInState(ledger, 'settlement_failed')
    const reverted = await ledger.sql(
      `UPDATE settlements SET finished_at = '2026-02-11T10:00:00Z', gas_used = 97000, effective_gas_price = 5,
         gas_cost = 1940 WHERE job_id = $1 AND state = 'reverted' RETURNING 1`,
      [id],
    )
    expect(reverted).toHaveLength(1)
    const [from, until] = ['2026-02-11T00:00:00Z', '2026-02-12T00:00:00Z']
    const [day] = await readDays(ledger.pool, { from: new Date(from), until: new Date(until) })
    expect(day).toMatchObject({ day: '2026-02-11', settlementGas: 1940n })
    const { total } = await readMargins(ledger.pool, { from, to: until })
    expect(total).toMatchObject({ gasAtomic: 1940n, marginAtomic: -1940n })
  })

  it('adds what operators ended to the day on which they did', async () => {
    const job = await jobInState(ledger, 'review')
    await ledger.sql(
      `INSERT INTO resolutions (item, job_id, payer, outcome, amount, reason, operator, resolved_at)
     VALUES ('review', $1, $2, 'written_off', 5034, 'too small', 'ada', '2026-03-02T10:00:00Z')`,
      [job.id, job.authorization.payer],
    )
    const [, day] = await readDays(ledger.pool, PERIOD)
    expect(day).toMatchObject({ day: '2026-03-02', resolved: [{ outcome: 'written_off', count: 1, amount: 5034n }] })
  })

  it('gives hours with what they earned and cost, and how long their calls took', async () => {
    await payCall({ at: '2026-01-22T10:30:00Z', isFinal: true })
    await ledger.sql(
      "UPDATE jobs SET accepted_at = finished_at - interval '2 seconds' WHERE finished_at = '2026-01-22T10:30:00Z'",
    )
    const failed = await jobInState(ledger, 'failed')
    await ledger.sql("UPDATE jobs SET finished_at = '2026-01-22T11:59:59Z' WHERE id = $1", [failed.id])
    const hours = await createMoneyStore(ledger.pool).readHours({
      from: new Date('2026-01-22T10:00:00Z'),
      until: new Date('2026-01-22T13:00:00Z'),
    })
    const empty = { completed: 0, failed: 0, earned: 0n, cost: 0n, p99Ms: null }
    expect(hours).toEqual([
      { startedAt: new Date('2026-01-22T10:00:00Z'), completed: 1, failed: 0, earned: 5034n, cost: 1240n, p99Ms: 2000 },
      { ...empty, startedAt: new Date('2026-01-22T11:00:00Z'), failed: 1 },
      { ...empty, startedAt: new Date('2026-01-22T12:00:00Z') },
    ])
  })

  it('gives the margin of each model and deployment, and says for how many calls a part of it is not known', async () => {
    const [first, second] = [
      await payCall({ at: '2026-02-01T10:00:00Z', isFinal: true }),
      await payCall({ at: '2026-02-01T11:00:00Z', isFinal: true }),
    ]
    const period = { from: '2026-02-01T00:00:00Z', to: '2026-02-02T00:00:00Z' }
    const known = {
      deployment: 'elevenlabs',
      calls: 2,
      chargedAtomic: 10_068n,
      vendorAtomic: 2400n,
      gasAtomic: 80n,
      marginAtomic: 7588n,
      withoutVendorCost: 0,
      withoutGas: 0,
    }
    const { payer } =
      (await ledger.sql<{ payer: string }>('SELECT payer FROM settlements WHERE job_id = $1', [first]))[0] ?? {}
    const read = await readMargins(ledger.pool, period)
    expect(read).toMatchObject({
      ofModels: [known],
      total: { vendorAtomic: 2400n, gasAtomic: 80n, marginAtomic: 7588n },
    })
    expect(read.ofPayers).toHaveLength(2)
    expect(read.ofPayers.find((margin) => margin.payer === payer)).toMatchObject({ calls: 1, marginAtomic: 3794n })
    await ledger.sql('UPDATE upstream_attempts SET vendor_cost = NULL WHERE job_id = $1', [first])
    await ledger.sql(
      'UPDATE settlements SET gas_used = NULL, effective_gas_price = NULL, gas_cost = NULL WHERE job_id = $1',
      [second],
    )
    expect((await readMargins(ledger.pool, period)).ofModels).toMatchObject([
      { vendorAtomic: 1200n, gasAtomic: 40n, marginAtomic: 8828n, withoutVendorCost: 1, withoutGas: 1 },
    ])
  })

  it('sums models by day alike before and after their hours are rolled up, and to the margin of the period', async () => {
    const ofDay = { from: new Date('2026-01-07T00:00:00Z'), until: new Date('2026-01-09T00:00:00Z') }
    const [first, second] = [
      await payCall({ at: '2026-01-07T23:59:59.999999Z', isFinal: true }),
      await payCall({ at: '2026-01-08T00:00:00Z', isFinal: true }),
    ]
    await payCall({ at: '2026-01-08T05:00:00Z', isFinal: true })
    await ledger.sql("UPDATE jobs SET public_model = 'a-model/of-its-own' WHERE id = $1", [second])
    await ledger.sql('UPDATE upstream_attempts SET vendor_cost = NULL WHERE job_id = $1', [first])
    const live = await readModelDays(ledger.pool, ofDay)
    const plain = { calls: 1, chargedAtomic: 5034n, gasAtomic: 40n, withoutGas: 0 }
    const known = { ...plain, vendorAtomic: 1200n, marginAtomic: 3794n, withoutVendorCost: 0 }
    expect(live).toMatchObject([
      { day: '2026-01-08', model: 'a-model/of-its-own', ...known },
      { day: '2026-01-08', model: 'speechvendor/scribe-v2', ...known },
      { day: '2026-01-07', model: 'speechvendor/scribe-v2', ...plain, vendorAtomic: 0n, withoutVendorCost: 1 },
    ])
    const { total } = await readMargins(ledger.pool, { from: '2026-01-07T00:00:00Z', to: '2026-01-09T00:00:00Z' })
    expect(sumOfMargins(live)).toMatchObject(total)
    await rollUpAll()
    // What is summed later than the hours that were rolled up is not what is shown of them.
    await ledger.sql("UPDATE jobs SET public_model = 'another' WHERE id = $1", [second])
    expect(await readModelDays(ledger.pool, ofDay)).toEqual(live)
    expect(await readModelDays(ledger.pool, ofDay, 'a-model/of-its-own')).toEqual([live[0]])
  })

  it('counts what a vendor bills for a call that brought nothing, in the day and not in the margin of a model', async () => {
    const job = await jobInState(ledger, 'generating')
    const usage = { input_audio_ms: 1000 }
    const measured = { usage, charge: atomicAmount(900n), vendorCost: atomicAmount(300n) }
    await ledger.execution.failJob(job, {
      code: 'provider_empty_output',
      reason: 'test',
      attempt: 'failed_empty',
      measured,
    })
    expect(
      await ledger.sql('SELECT state, usage, vendor_cost FROM upstream_attempts WHERE job_id = $1', [job.id]),
    ).toEqual([{ state: 'failed_empty', usage, vendor_cost: '300' }])
    await ledger.sql("UPDATE upstream_attempts SET finished_at = '2026-01-05T10:00:00Z' WHERE job_id = $1", [job.id])
    expect(await readMargins(ledger.pool, { from: '2026-01-05T00:00:00Z', to: '2026-01-06T00:00:00Z' })).toMatchObject({
      ofModels: [],
      total: { chargedAtomic: 0n, vendorAtomic: 300n, marginAtomic: -300n },
    })
  })
})

describe('totals of the ledger', () => {
  let ledger: TestLedger
  beforeEach(async () => {
    ledger = await createTestLedger(4)
    // Nothing of what these tests move into the past is rolled up yet.
    await ledger.sql("UPDATE ledger_totals SET through = '-infinity'")
  })

  afterEach(() => ledger.close())

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
      resolved: Object.fromEntries(RESOLUTION_OUTCOMES.map((outcome) => [outcome, { count: 0, total: 0n }])),
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
    expect(await ledger.sql('SELECT kind, count FROM ledger_totals WHERE count > 0 ORDER BY kind')).toEqual([
      { kind: 'ambiguous', count: '1' },
      { kind: 'charged', count: '2' },
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
    await jobInState(ledger, 'review')
    const registry = new Registry()
    addLedgerMetrics(registry, { readLedgerTotals: () => ledger.reports.readLedgerTotals() })
    expect(await registry.metrics()).toMatch(/^farebox_jobs_in_review 1$/m)
    const other = new Registry()
    addLedgerMetrics(other, { readLedgerTotals: () => ledger.sql('SELECT 1 / 0') as never })
    const text = await other.metrics()
    expect(text).toMatch(/^farebox_ledger_readable 0$/m)
    expect(text.match(/^farebox_.*$/gm)).toEqual(['farebox_ledger_readable 0'])
  })
})

describe('ages of the queues', () => {
  let ledger: TestLedger
  beforeAll(async () => {
    ledger = await createTestLedger()
  })

  beforeEach(() => ledger.sql("UPDATE jobs SET run_after = now() + interval '1 day'"))

  afterAll(() => ledger.close())

  const waitingSince = (jobId: string, seconds: number) =>
    ledger.sql('UPDATE jobs SET run_after = now() - make_interval(secs => $2) WHERE id = $1', [jobId, seconds])
  describe('the age of a queue', () => {
    it('returns no age for an empty queue', async () => {
      expect(await ledger.acceptance.readQueueAges()).toEqual(new Map())
    })
    it('returns the age of the oldest waiting job', async () => {
      await waitingSince(await acceptTestJob(ledger), 5)
      await waitingSince(await acceptTestJob(ledger), 100)
      const age = (await ledger.acceptance.readQueueAges()).get(OPERATION)
      expect(age).toBeGreaterThanOrEqual(100_000)
      expect(age).toBeLessThan(160_000)
    })
    it('includes a job that a worker has leased and not sent to a provider', async () => {
      const leased = await acceptTestJob(ledger)
      await waitingSince(leased, 100)
      await claimTestJob(ledger, leased)
      expect((await ledger.acceptance.readQueueAges()).get(OPERATION)).toBeGreaterThanOrEqual(100_000)
    })
    it('ignores deferred jobs even when due, and jobs past acceptance', async () => {
      await acceptTestJob(ledger).then((deferred) => waitingSince(deferred, -100))
      const deferredAndDue = await acceptTestJob(ledger)
      await ledger.execution.deferJob(await claimTestJob(ledger, deferredAndDue), 0)
      await waitingSince(deferredAndDue, 100)
      const { id: generated } = await jobInState(ledger, 'generated')
      await ledger.sql('UPDATE jobs SET lease_expires_at = NULL WHERE id = $1', [generated])
      await waitingSince(generated, 100)
      expect(await ledger.acceptance.readQueueAges()).toEqual(new Map())
    })
  })

  describe('whether a key has a job', () => {
    it('hasJob is true for a key with an accepted job and false for one with a failed job', async () => {
      const job = newTestJob()
      expect(await ledger.acceptance.hasJob(job.idempotencyKey)).toBe(false)
      await acceptTestJob(ledger, job)
      expect(await ledger.acceptance.hasJob(job.idempotencyKey)).toBe(true)
      const failed = newTestJob()
      await jobInState(ledger, 'failed', failed)
      expect(await ledger.acceptance.hasJob(failed.idempotencyKey)).toBe(false)
    })
  })
})
