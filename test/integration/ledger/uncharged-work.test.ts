import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { JobFailure } from '#shared/jobs/job.ts'
import { type AcceptanceOptions, createAcceptanceStore } from '#shared/ledger/acceptance/acceptance-store.ts'
import type { Acceptance } from '#shared/ledger/acceptance/acceptance.ts'
import { createNewPayersLimit } from '#shared/ledger/acceptance/new-payers.ts'
import { createExecutionStore } from '#shared/ledger/execution/execution-store.ts'
import type { Sql } from '#shared/ledger/pool.ts'
import { atomicAmount, atomicFromDollars } from '#shared/money/atomic-amount.ts'
import {
  acceptTestJob,
  bindTestKey,
  called,
  claimTestJob,
  fencedWrites,
  jobInState,
  moveToState,
  rereadJob,
} from '../../support/ledger/job-in-state.ts'
import { newTestJob, paidAgain, TEST_PRICE, type TestJob } from '../../support/ledger/new-test-job.ts'
import { randomAddress, testAuthorization } from '../../support/ledger/test-authorization.ts'
import { createTestLedger, TEST_LIMITS, type TestLedger } from '../../support/ledger/test-ledger.ts'
import { PATIENCE_MS } from '../../support/patience.ts'

let ledger: TestLedger
beforeAll(async () => {
  ledger = await createTestLedger()
})
afterAll(() => ledger.close())
/** The terms of test jobs have the price as minimum, so a smaller one tells the two apart. */
const SMALL_MINIMUM = { price_per_audio_hour_usd: '0.122', minimum_charge_usd: '0.000034', maximum_charge_usd: '0.122' }
type Payer = `0x${string}`
function jobOf(payer: Payer): TestJob {
  const job = newTestJob({ authorization: testAuthorization({ payer }) })
  return { ...job, quote: { ...job.quote, terms: SMALL_MINIMUM } }
}
async function accept(payer: Payer, limits: AcceptanceOptions = TEST_LIMITS): Promise<Acceptance> {
  const job = jobOf(payer)
  await bindTestKey(ledger, job)
  return createAcceptanceStore(ledger.pool, limits).acceptPayment(job)
}
const EMPTY: JobFailure = { code: 'provider_empty_output', reason: 'test', attempt: 'failed_empty' }
const UNKNOWN: JobFailure = { code: 'provider_outcome_unknown', reason: 'test', attempt: 'failed_ambiguous' }
/** The ledger without a budget, for what a payer did before. */
function unlimited(): TestLedger {
  const budget = { ...TEST_LIMITS.budget, perPayer: TEST_LIMITS.newPayers }
  return { ...ledger, acceptance: createAcceptanceStore(ledger.pool, { ...TEST_LIMITS, budget }) }
}
/** Creates a job of the payer that failed. */
async function failed(payer: Payer, failure: JobFailure): Promise<string> {
  const job = await jobInState(unlimited(), failure.attempt === 'none' ? 'accepted' : 'generating', jobOf(payer))
  expect(await ledger.execution.failJob(job, failure)).toBe('written')
  return job.id
}
/** Creates uncharged work of this amount, some minutes ago. */
async function uncharged(
  payer: Payer,
  usdc: string,
  minutesAgo: number,
  { failure = EMPTY, deployment = 'elevenlabs', isNewPayer = true } = {},
): Promise<void> {
  await ledger.sql(
    `UPDATE uncharged_work SET amount = $2, created_at = now() - make_interval(mins => $3), deployment = $4,
       is_new_payer = $5 WHERE job_id = $1`,
    [await failed(payer, failure), atomicFromDollars(usdc).toString(), minutesAgo, deployment, isNewPayer],
  )
}
/** Creates a completed job of the payer with this charge. */
async function paid(payer: Payer, usdc: string): Promise<void> {
  const charge = atomicFromDollars(usdc).toString()
  const { id } = await jobInState(unlimited(), 'completed', jobOf(payer))
  await ledger.sql('UPDATE jobs SET charge_amount = $2, quoted_maximum = $2 WHERE id = $1', [id, charge])
  await ledger.sql('UPDATE settlements SET charge_amount = $2 WHERE job_id = $1', [id, charge])
}
function workOf(payer: Payer) {
  return ledger.sql<{ kind: string; amount: string; deployment: string | null }>(
    'SELECT kind, amount, deployment FROM uncharged_work WHERE payer = $1 ORDER BY created_at',
    [payer],
  )
}
/** Lets a call of each of some other payers end unknown, ten minutes ago unless told otherwise. */
async function othersFail(count: number, deployment: string, { isNewPayer = false, minutesAgo = 10 } = {}) {
  for (let other = 0; other < count; other += 1)
    await uncharged(randomAddress(), '0.01', minutesAgo, { failure: UNKNOWN, deployment, isNewPayer })
}
/** Lets no earlier test's payers count as new. */
async function emptied(): Promise<void> {
  await ledger.sql('DELETE FROM uncharged_work')
  await ledger.sql('UPDATE jobs SET is_new_payer = false')
}
/** Of a second of audio, whose vendor bills a third of the charge. */
const measured = (charge: bigint) => ({
  usage: { input_audio_ms: 1000 },
  charge: atomicAmount(charge),
  vendorCost: atomicAmount(charge / 3n),
})
/** Returns limits that let new payers have this many calls. */
const limitOf = (calls: number): AcceptanceOptions => ({
  ...TEST_LIMITS,
  newPayers: atomicAmount(TEST_PRICE * BigInt(calls)),
})

describe('the record of uncharged work', () => {
  const recorded: readonly [string, JobFailure, { kind: string; amount: string } | null][] = [
    ['an empty answer at the authorized maximum', EMPTY, { kind: 'empty_output', amount: '5034' }],
    [
      'an empty answer with measured usage at its charge',
      { ...EMPTY, measured: measured(77n) },
      { kind: 'empty_output', amount: '77' },
    ],
    [
      'a measured charge above the authorized maximum at that maximum',
      { ...EMPTY, measured: measured(7_000_000n) },
      { kind: 'empty_output', amount: '5034' },
    ],
    ['an unknown outcome at the authorized maximum', UNKNOWN, { kind: 'unknown_outcome', amount: '5034' }],
    ['a call that the service lost as one', { ...UNKNOWN, isLost: true }, { kind: 'lost_call', amount: '5034' }],
    [
      'a request that the provider rejected at the minimum charge',
      { code: 'provider_rejected', reason: 'test', attempt: 'failed_definite' },
      { kind: 'rejected_request', amount: '34' },
    ],
    [
      'an image that cannot be fetched at the minimum charge, without a provider call',
      { code: 'image_unavailable', reason: 'test', attempt: 'none' },
      { kind: 'rejected_request', amount: '34' },
    ],
    [
      'a provider that is unavailable as nothing',
      { code: 'provider_unavailable', reason: 'test', attempt: 'failed_definite' },
      null,
    ],
    [
      'a request that was not started in time as nothing',
      { code: 'authorization_too_short', reason: 'test', attempt: 'none' },
      null,
    ],
    [
      'a request that every vendor refuses, as one in a language that none knows, at the minimum charge',
      { code: 'request_unsupported', reason: 'test', attempt: 'failed_definite' },
      { kind: 'rejected_request', amount: '34' },
    ],
    [
      'a refusal for uncharged work as nothing',
      { code: 'uncharged_work_limit', reason: 'test', attempt: 'none' },
      null,
    ],
  ]
  it.each(recorded)('counts %s', async (_, failure, work) => {
    const payer = randomAddress()
    await failed(payer, failure)
    const deployment = failure.attempt === 'none' ? null : 'elevenlabs'
    expect(await workOf(payer)).toEqual(work ? [{ ...work, deployment }] : [])
  })

  it('writes no uncharged work for a worker that lost its job', async () => {
    const payer = randomAddress()
    const job = await jobInState(ledger, 'generating', jobOf(payer))
    expect(await ledger.execution.failJob({ ...job, fence: job.fence + 1n }, EMPTY)).toBe('stale')
    expect(await workOf(payer)).toEqual([])
  })

  it('counts a withheld result that is generated again at its charge', async () => {
    const payer = randomAddress()
    const request = jobOf(payer)
    const job = await jobInState(ledger, 'settlement_failed', request)
    await ledger.sql('UPDATE jobs SET result_body = NULL, result_expired_at = now() WHERE id = $1', [job.id])
    expect(await ledger.acceptance.acceptPayment(paidAgain(request))).toMatchObject({ outcome: 'accepted' })
    expect(await workOf(payer)).toEqual([{ kind: 'replaced_result', amount: TEST_PRICE.toString(), deployment: null }])
  })

  it('keeps an authorization whose call came back empty from paying for another call', async () => {
    const job = await jobInState(ledger, 'generating')
    await ledger.sql("UPDATE upstream_attempts SET state = 'failed_empty', finished_at = now() WHERE job_id = $1", [
      job.id,
    ])
    await expect(ledger.execution.startAttempt(job, called('another'), null)).rejects.toThrow(
      'one_call_per_authorization',
    )
  })
})

describe('the budget of uncharged work', () => {
  it('refuses the next call once the work of the window reaches it, and names what counted and when to retry', async () => {
    const payer = randomAddress()
    for (const minutesAgo of [50, 40, 30, 20]) await uncharged(payer, '0.2', minutesAgo)
    expect(await accept(payer)).toMatchObject({ outcome: 'accepted' })
    await uncharged(payer, '0.3', 10, { failure: UNKNOWN })
    const refused = await accept(payer)
    expect(refused).toMatchObject({
      outcome: 'uncharged_work_limit',
      exhausted: {
        used: 1_100_000n,
        allowed: 1_000_000n,
        byKind: { empty_output: 800_000n, unknown_outcome: 300_000n },
      },
    })
    // Without the entry of 50 minutes ago, 0.9 USDC are left.
    const { retryAfterSeconds } = (refused as { exhausted: { retryAfterSeconds: number } }).exhausted
    expect(retryAfterSeconds).toBeGreaterThan(9 * 60)
    expect(retryAfterSeconds).toBeLessThanOrEqual(10 * 60)
    expect(await accept(randomAddress())).toMatchObject({ outcome: 'accepted' })
  })

  it('asks to wait until enough entries have left the window, not only the oldest', async () => {
    const payer = randomAddress()
    await uncharged(payer, '0.2', 50)
    await uncharged(payer, '1.5', 20)
    await uncharged(payer, '0.2', 10)
    const refused = (await accept(payer)) as { exhausted: { retryAfterSeconds: number } }
    expect(Math.round(refused.exhausted.retryAfterSeconds / 60)).toBe(40)
  })

  it('does not count what has left the window', async () => {
    const payer = randomAddress()
    await uncharged(payer, '5', 61)
    expect(await accept(payer)).toMatchObject({ outcome: 'accepted' })
  })

  it('raises the budget by what the payer paid for within the window', async () => {
    const payer = randomAddress()
    await uncharged(payer, '1.2', 10)
    expect(await accept(payer)).toMatchObject({ outcome: 'uncharged_work_limit' })
    await paid(payer, '0.3')
    expect(await accept(payer)).toMatchObject({ outcome: 'accepted' })
    await ledger.sql(
      "UPDATE jobs SET finished_at = now() - interval '2 hours' WHERE payer = $1 AND state = 'completed'",
      [payer],
    )
    expect(await accept(payer)).toMatchObject({ outcome: 'uncharged_work_limit', exhausted: { allowed: 1_000_000n } })
  })

  it('writes nothing for a refused call', async () => {
    const payer = randomAddress()
    await uncharged(payer, '1', 10)
    const job = jobOf(payer)
    await bindTestKey(ledger, job)
    const before = await ledger.fingerprint()
    expect(await ledger.acceptance.acceptPayment(job)).toMatchObject({ outcome: 'uncharged_work_limit' })
    expect(await ledger.fingerprint()).toBe(before)
  })

  it('never prevents a payer from paying for a withheld result', async () => {
    const payer = randomAddress()
    const request = jobOf(payer)
    const job = await jobInState(ledger, 'generated', request)
    await uncharged(payer, '1', 10)
    expect(await fencedWrites.failSettlement.run(ledger, job)).toBe('written')
    expect(await ledger.acceptance.acceptPayment(paidAgain(request))).toMatchObject({ outcome: 'settles_again' })
  })

  it('checks the budget of accepted work again before a provider is called', async () => {
    const payer = randomAddress()
    const job = await jobInState(ledger, 'accepted', jobOf(payer))
    expect(await ledger.execution.readExposureAhead(job, null)).toMatchObject({ exhausted: null })
    await uncharged(payer, '1', 0)
    expect(await ledger.execution.readExposureAhead(job, null)).toMatchObject({ exhausted: { used: 1_000_000n } })
    const wider = { ...TEST_LIMITS.budget, perPayer: atomicFromDollars('1.1') }
    const store = createExecutionStore(ledger.pool, wider)
    expect(await store.readExposureAhead(job, null)).toMatchObject({ exhausted: null })
  })
})

describe('unknown outcomes during an outage of a deployment', () => {
  it('excuses unknown outcomes when calls of three established payers to the same deployment ended unknown too', async () => {
    const payer = randomAddress()
    await uncharged(payer, '3', 12, { failure: UNKNOWN, deployment: 'down' })
    await othersFail(2, 'down')
    expect(await accept(payer)).toMatchObject({ outcome: 'uncharged_work_limit' })
    await othersFail(1, 'down')
    expect(await accept(payer)).toMatchObject({ outcome: 'accepted' })
  })

  it.each([
    ['payers are new', { isNewPayer: true }, 'unproven'],
    ['calls ended at another time', { minutesAgo: 40 }, 'earlier'],
    ['calls went to another deployment', {}, 'another'],
  ])('count when the other %s', async (_, options, deployment) => {
    const payer = randomAddress()
    const own = deployment === 'another' ? 'own' : deployment
    await uncharged(payer, '3', 12, { failure: UNKNOWN, deployment: own })
    await othersFail(3, deployment, options)
    expect(await accept(payer)).toMatchObject({ outcome: 'uncharged_work_limit', exhausted: { used: 3_000_000n } })
  })

  it('excuses unknown outcomes only up to the limit of open work', async () => {
    const payer = randomAddress()
    await othersFail(3, 'capped')
    await uncharged(payer, '19', 12, { failure: UNKNOWN, deployment: 'capped' })
    await uncharged(payer, '1', 11, { failure: UNKNOWN, deployment: 'capped' })
    expect(await accept(payer)).toMatchObject({ outcome: 'accepted' })
    await uncharged(payer, '2', 10, { failure: UNKNOWN, deployment: 'capped' })
    expect(await accept(payer)).toMatchObject({ outcome: 'uncharged_work_limit', exhausted: { used: 2_000_000n } })
  })

  it('excuses no answers without usable output during an outage', async () => {
    const payer = randomAddress()
    await uncharged(payer, '1', 12, { deployment: 'half-down' })
    await othersFail(3, 'half-down')
    expect(await accept(payer)).toMatchObject({ outcome: 'uncharged_work_limit' })
  })
})

describe('the shared limit of new payers', () => {
  let pool: TestLedger
  beforeAll(async () => {
    pool = ledger
    ledger = await createTestLedger()
  })
  afterAll(async () => {
    await ledger.close()
    ledger = pool
  })

  it('accepts as many open calls of different new payers as it holds', async () => {
    await emptied()
    const store = createAcceptanceStore(ledger.pool, limitOf(3))
    const jobs = Array.from({ length: 5 }, () => jobOf(randomAddress()))
    for (const job of jobs) await bindTestKey(ledger, job)
    const acceptances: Acceptance[] = []
    for (const job of jobs) acceptances.push(await store.acceptPayment(job))
    expect(acceptances.map(({ outcome }) => outcome)).toEqual([
      'accepted',
      'accepted',
      'accepted',
      'new_payer_limit',
      'new_payer_limit',
    ])
    // Open work settles soon.
    expect(acceptances.at(-1)).toEqual({ outcome: 'new_payer_limit', limit: 'all', retryAfterSeconds: 2 })
  })

  it('holds for payments that arrive together at several processes', async () => {
    await emptied()
    const jobs = Array.from({ length: 60 }, () => jobOf(randomAddress()))
    for (const job of jobs) await bindTestKey(ledger, job)
    const processes = [0, 1, 2].map(() => createAcceptanceStore(ledger.pool, limitOf(10)))
    const acceptances = await Promise.all(
      jobs.map(async (job, index) => await processes[index % 3]?.acceptPayment(job)),
    )
    expect(acceptances.filter((one) => one?.outcome === 'accepted')).toHaveLength(10)
    expect(acceptances.filter((one) => one?.outcome === 'new_payer_limit')).toHaveLength(50)
  })

  it('gives back what was reserved for a payment that was not accepted', async () => {
    await emptied()
    const store = createAcceptanceStore(ledger.pool, limitOf(1))
    const refused = jobOf(randomAddress())
    await bindTestKey(ledger, refused)
    const constraint = 'refused_for_a_test'
    await ledger.sql(`ALTER TABLE jobs ADD CONSTRAINT ${constraint} CHECK (payer <> '${refused.authorization.payer}')`)
    await expect(store.acceptPayment(refused)).rejects.toThrow(constraint)
    await ledger.sql(`ALTER TABLE jobs DROP CONSTRAINT ${constraint}`)
    const next = jobOf(randomAddress())
    await bindTestKey(ledger, next)
    await expect.poll(() => store.acceptPayment(next), { timeout: PATIENCE_MS }).toMatchObject({ outcome: 'accepted' })
  })

  it('reads the sums once in a transaction, and repeats a refusal for a second without a statement', async () => {
    await emptied()
    let [nowMs, statements] = [0, 0]
    const database: Sql = ledger.pool
    const sql: Sql = {
      query: async (statement) => {
        statements += 1
        return await database.query(statement)
      },
    }
    const { newPayers } = limitOf(10)
    const limit = createNewPayersLimit(newPayers, () => nowMs)
    const payment = { network: '192.0.2.0/24', maximum: TEST_PRICE, highestPrice: newPayers }
    const reserveTwenty = async () => {
      const transaction = limit.forTransaction([payment.network])
      const refusals: unknown[] = []
      for (let count = 0; count < 20; count += 1) refusals.push(await transaction.reserve(sql, payment))
      return refusals.filter((refusal) => refusal === null).length
    }
    expect(await reserveTwenty()).toBe(10)
    // Their turn, and the sums.
    expect(statements).toBe(2)
    // Nothing was written, so the places are free again, and what did not fit beside them is not remembered.
    expect(await reserveTwenty()).toBe(10)
    expect(statements).toBe(4)
    const open = Array.from({ length: 10 }, () => jobOf(randomAddress()))
    for (const job of open) {
      await bindTestKey(ledger, job)
      expect(await createAcceptanceStore(ledger.pool, limitOf(10)).acceptPayment(job)).toMatchObject({
        outcome: 'accepted',
      })
    }
    expect(await reserveTwenty()).toBe(0)
    expect(statements).toBe(6)
    nowMs = 999
    expect(await reserveTwenty()).toBe(0)
    expect(statements).toBe(6)
    nowMs = 1000
    expect(await reserveTwenty()).toBe(0)
    expect(statements).toBe(8)
  })

  it('accepts another one as soon as open work has settled', async () => {
    await emptied()
    const store = createAcceptanceStore(ledger.pool, limitOf(1))
    const first = jobOf(randomAddress())
    await bindTestKey(ledger, first)
    const accepted = await store.acceptPayment(first)
    expect(accepted).toMatchObject({ outcome: 'accepted' })
    const next = jobOf(randomAddress())
    await bindTestKey(ledger, next)
    expect(await store.acceptPayment(next)).toMatchObject({ outcome: 'new_payer_limit' })
    await moveToState(ledger, await claimTestJob(ledger, (accepted as { jobId: string }).jobId), 'completed')
    await expect.poll(() => store.acceptPayment(next), { timeout: PATIENCE_MS }).toMatchObject({ outcome: 'accepted' })
  })

  it('counts uncharged work of new payers for a day', async () => {
    await emptied()
    await uncharged(randomAddress(), '0.4', 24 * 60 - 10)
    await uncharged(randomAddress(), '0.1', 5)
    const limits = { ...TEST_LIMITS, newPayers: atomicFromDollars('0.5') }
    const refused = (await accept(randomAddress(), limits)) as { outcome: string; retryAfterSeconds: number }
    expect(refused.outcome).toBe('new_payer_limit')
    expect(Math.round(refused.retryAfterSeconds / 60)).toBe(10)
    await ledger.sql("UPDATE uncharged_work SET created_at = created_at - interval '11 minutes'")
    expect(await accept(randomAddress(), limits)).toMatchObject({ outcome: 'accepted' })
  })

  it('counts debts of new payers, while they are younger than a day', async () => {
    await emptied()
    const { id } = await jobInState(ledger, 'settlement_failed', jobOf(randomAddress()))
    expect(await accept(randomAddress(), limitOf(1))).toMatchObject({ outcome: 'new_payer_limit' })
    await ledger.sql("UPDATE jobs SET finished_at = now() - interval '25 hours' WHERE id = $1", [id])
    expect(await accept(randomAddress(), limitOf(1))).toMatchObject({ outcome: 'accepted' })
  })

  it('does not apply to a payment that its payer’s settled charges cover, however old they are', async () => {
    await emptied()
    const payer = randomAddress()
    await paid(payer, '0.005033')
    await acceptTestJob(ledger, jobOf(randomAddress()))
    expect(await accept(payer, limitOf(1))).toMatchObject({ outcome: 'new_payer_limit' })
    await paid(payer, '0.000001')
    await ledger.sql("UPDATE jobs SET finished_at = now() - interval '1 year' WHERE payer = $1", [payer])
    const accepted = await accept(payer, limitOf(1))
    expect(accepted).toMatchObject({ outcome: 'accepted' })
    expect(
      await ledger.sql('SELECT is_new_payer FROM jobs WHERE id = $1', [(accepted as { jobId: string }).jobId]),
    ).toEqual([{ is_new_payer: false }])
    // With that one open it is not covered any more.
    expect(await accept(payer, limitOf(1))).toMatchObject({ outcome: 'new_payer_limit' })
  })

  it('accepts a single call that is larger than the limit when nothing else counts', async () => {
    await emptied()
    const tiny = { ...TEST_LIMITS, newPayers: atomicAmount(1n) }
    expect(await accept(randomAddress(), tiny)).toMatchObject({ outcome: 'accepted' })
    expect(await accept(randomAddress(), tiny)).toMatchObject({ outcome: 'new_payer_limit' })
  })

  it('never prevents a new payer from paying for a withheld result', async () => {
    await emptied()
    const request = jobOf(randomAddress())
    const job = await jobInState(ledger, 'settlement_failed', request)
    await jobInState(ledger, 'accepted')
    const store = createAcceptanceStore(ledger.pool, limitOf(1))
    expect(await store.acceptPayment(paidAgain(request))).toEqual({ outcome: 'settles_again', jobId: job.id })
  })

  it('reports what new payers have open, owed and uncharged', async () => {
    await emptied()
    const before = await ledger.reports.readLedgerTotals()
    expect(before.newPayerExposure).toBe(0n)
    const job = await jobInState(ledger, 'accepted', jobOf(randomAddress()))
    await uncharged(randomAddress(), '0.4', 5)
    expect(await ledger.reports.readLedgerTotals()).toMatchObject({ newPayerExposure: TEST_PRICE + 400_000n })
    await ledger.execution.failJob(await rereadJob(ledger, job), EMPTY)
    expect(await ledger.reports.readLedgerTotals()).toMatchObject({
      newPayerExposure: TEST_PRICE + 400_000n,
      uncharged: { empty_output: { count: before.uncharged.empty_output.count + 2 } },
    })
  })
})
