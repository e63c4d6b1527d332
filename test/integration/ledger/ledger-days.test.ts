import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { readDays } from '#shared/adapters/postgres/console/read-days.ts'
import { rollUpHours } from '#shared/adapters/postgres/reports/roll-up-hours.ts'
import { ROLLED_UP_HOURS } from '#shared/jobs/reports-store.ts'
import { jobInState } from '../../support/ledger/job-in-state.ts'
import { newTestJob } from '../../support/ledger/new-test-job.ts'
import { testAuthorization } from '../../support/ledger/test-authorization.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'

let ledger: TestLedger
beforeAll(async () => {
  ledger = await createTestLedger()
})
afterAll(() => ledger.close())
beforeEach(async () => {
  await ledger.sql('DELETE FROM ledger_hours')
})

interface PaidCall {
  readonly at: string
  readonly isFinal: boolean
}

/** Stores a completed call whose times are `at`, with gas of 40. */
async function payCall({ at, isFinal }: PaidCall): Promise<string> {
  const job = await jobInState(ledger, 'completed', newTestJob({ authorization: testAuthorization() }))
  await ledger.sql('UPDATE jobs SET accepted_at = $2, finished_at = $2 WHERE id = $1', [job.id, at])
  await ledger.sql(
    `UPDATE settlements SET finished_at = $2, finalized_at = CASE WHEN $3 THEN now() END, gas_used = 1,
       effective_gas_price = 1, gas_cost = 40 WHERE job_id = $1`,
    [job.id, at, isFinal],
  )
  return job.id
}

async function absorb(jobId: string, at: string): Promise<void> {
  await ledger.sql(
    `INSERT INTO uncharged_work (job_id, authorization_id, network, payer, kind, amount, is_new_payer, created_at)
     SELECT id, authorization_id, 'eip155:8453', payer, 'empty_output', 700, true, $2 FROM jobs WHERE id = $1`,
    [jobId, at],
  )
}

const PERIOD = { from: new Date('2026-03-01T00:00:00Z'), until: new Date('2026-03-04T00:00:00Z') }

async function rollUpAll(): Promise<number> {
  let hours = 0
  for (let added = -1; added !== 0; ) {
    added = await rollUpHours(ledger.pool)
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
      permitGas: 0n,
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
  await Promise.all(Array.from({ length: 4 }, () => rollUpHours(ledger.pool)))
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

it('counts the gas of permits that the service submitted', async () => {
  await ledger.sql(
    `INSERT INTO sponsored_permits (id, digest, network, owner, value, deadline, permit_nonce, signature, state,
       finished_at, reserved_gas_wei, minimum_balance, block_number, transaction_hash, block_hash, gas_used,
       effective_gas_price, gas_wei, gas_cost, finalized_at)
     VALUES ($1, 'digest', 'eip155:8453', 'owner', 1, 1, 0, '0x', 'confirmed', '2026-03-01T10:00:00Z', 1, 0, 1, '0x01',
       '0x02', 1, 1, 1, 90, now())`,
    [randomUUID()],
  )
  expect((await readDays(ledger.pool, PERIOD)).at(-1)).toMatchObject({ day: '2026-03-01', permitGas: 90n })
  await rollUpAll()
  expect((await readDays(ledger.pool, PERIOD)).at(-1)).toMatchObject({ day: '2026-03-01', permitGas: 90n })
})
