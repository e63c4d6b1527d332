import { Registry } from 'prom-client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readSponsoredPermits } from '#shared/adapters/postgres/reports/sponsored-permits.ts'
import type { JobState } from '#shared/jobs/job.ts'
import { RESOLUTION_OUTCOMES } from '#shared/jobs/resolution.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import { addLedgerMetrics } from '../../../workers/telemetry/ledger-metrics.ts'
import { addSponsoredMetrics, measuredAllowanceStore } from '../../../workers/telemetry/sponsored-metrics.ts'
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

/** Stores a permit that ended at a time with a cost in wei, or is in progress (`at` is `null`). */
async function sponsored(
  state: string,
  at: string | null,
  wei: bigint | null,
  code: string | null = null,
): Promise<void> {
  await ledger.sql(
    `INSERT INTO sponsored_permits (digest, network, owner, value, deadline, permit_nonce, signature, state, requested_at,
       finished_at, reserved_gas_wei, minimum_balance, facilitator, account_nonce, block_number, failure_code,
       transaction_hash, block_hash, gas_used, effective_gas_price, gas_wei, gas_cost)
     SELECT gen_random_uuid(), 'eip155:8453', '0x1', 1, 1, 0, '0x', $1, coalesce($2::timestamptz, now() - interval '90 seconds'),
       $2::timestamptz, 700, 1, '0x2', coalesce(max(account_nonce), 0) + 1, 7, $4, 'h' || cost, 'b' || cost, cost - cost + 100, cost / 100, cost,
       cost - cost + 3
     FROM (SELECT $3::numeric AS cost) AS given LEFT JOIN sponsored_permits ON true GROUP BY cost`,
    [state, at, wei?.toString() ?? null, code],
  )
}

test('reports sponsored permits with their gas by outcome and day, and what is in progress', async () => {
  const period = { from: '2026-03-01T12:00:00Z', to: '2026-03-03T00:00:00Z' }
  await ledger.sql('DELETE FROM sponsored_permits')
  await sponsored('confirmed', '2026-03-01T11:59:59.999Z', 10n ** 20n)
  await sponsored('confirmed', '2026-03-01T12:00:00Z', 2000n)
  await sponsored('confirmed', '2026-03-01T23:59:59Z', 10n ** 18n + 1n)
  await sponsored('failed', '2026-03-02T00:00:00Z', 400n, 'permit_reverted')
  await sponsored('failed', '2026-03-02T00:00:00Z', null, 'permit_expired')
  await sponsored('failed', '2026-03-03T00:00:00Z', 10n ** 20n, 'permit_reverted')
  await sponsored('signed', null, null)
  await sponsored('requested', null, null)
  const { pending, ...ended } = await readSponsoredPermits(ledger.pool, period)
  const both = { count: 2, gasUsed: 200n, wei: 10n ** 18n + 2001n, totalAtomic: 6n }
  const failed = { count: 1, gasUsed: 100n, wei: 400n, totalAtomic: 3n }
  expect(ended).toEqual({
    confirmed: both,
    failed,
    byDay: [
      { day: '2026-03-01', ...both },
      { day: '2026-03-02', ...failed },
    ],
    failures: [
      { code: 'permit_expired', count: 1 },
      { code: 'permit_reverted', count: 1 },
    ],
  })
  expect(pending).toMatchObject({ count: 2, reservedWei: 1400n })
  expect(Date.now() - Date.parse(pending.oldestSince ?? '')).toBeGreaterThan(60_000)
})

const hoursAgo = (hours: number) => new Date(Date.now() - hours * 3_600_000).toISOString()

test('exports permits in progress, and the gas of the last day with what they may cost', async () => {
  await ledger.sql('DELETE FROM sponsored_permits')
  const registry = new Registry()
  addSponsoredMetrics(registry, { reportsStore: ledger.reports })
  const text = () => registry.metrics()
  const empty = await text()
  for (const name of [
    'permits{state="requested"}',
    'permits{state="signed"}',
    'permit_oldest_pending_seconds',
    'gas_day_wei',
  ])
    expect(empty).toContain(`farebox_sponsored_${name} 0`)
  await sponsored('confirmed', hoursAgo(23), 500n)
  await sponsored('failed', hoursAgo(1), 30n, 'permit_reverted')
  await sponsored('confirmed', hoursAgo(25), 9000n)
  await sponsored('confirmed', hoursAgo(1), null)
  await sponsored('signed', null, null)
  expect(await text()).toContain('farebox_sponsored_permits{state="signed"} 1')
  expect(await text()).toContain('farebox_sponsored_gas_day_wei 1230')
  expect(await text()).toMatch(/farebox_sponsored_permit_oldest_pending_seconds [1-9]\d/)
})

test('counts the permits that a process finishes, with their gas, and not those that another one took over', async () => {
  await ledger.sql('DELETE FROM sponsored_permits')
  const registry = new Registry()
  const store = measuredAllowanceStore(registry, ledger.allowances)
  const gas = { gasUsed: 1n, effectiveGasPrice: 7n, cost: atomicAmount(5n) }
  const mined = { transaction: '0x01', blockNumber: 1n, blockHash: '0x02', gas, costWei: 7n } as const
  const limits = { perOwnerSeconds: 0, dailyGasWei: 100n, reservedGasWei: 1n, minimumBalance: 0n }
  const claimed = async (digest: `0x${string}`) => {
    const permit = { owner: digest, value: 1n, deadline: 1n, nonce: 0n, signature: '0x', digest } as const
    await ledger.allowances.requestAllowance(permit, limits)
    const [claim] = await store.claimAllowances(60_000, 1)
    if (!claim) throw new Error('nothing is due')
    return claim
  }
  const first = await claimed('0x0a')
  expect(await store.confirmAllowance({ ...first, fence: first.fence - 1n }, { by: 'own_transaction', mined })).toBe(
    'stale',
  )
  expect(await store.confirmAllowance(first, { by: 'own_transaction', mined })).toBe('written')
  const failure = { code: 'permit_reverted', reason: 'test' } as const
  await store.failAllowance(await claimed('0x0b'), failure, { ...mined, transaction: '0x03' })
  await store.failAllowance(await claimed('0x0c'), { ...failure, code: 'permit_expired' }, null)
  const metrics = await registry.metrics()
  expect(metrics).toContain('farebox_sponsored_permits_finished_total{outcome="confirmed"} 1\n')
  expect(metrics).toContain('farebox_sponsored_permits_finished_total{outcome="failed"} 2\n')
  expect(metrics).toContain('farebox_sponsored_gas_usdc_atomic_total{outcome="confirmed"} 5\n')
  expect(metrics).toContain('farebox_sponsored_gas_usdc_atomic_total{outcome="failed"} 5\n')
})
