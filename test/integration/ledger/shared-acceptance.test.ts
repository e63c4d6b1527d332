import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createAdmissionStore } from '#shared/adapters/postgres/admission/admission-store.ts'
import type { Acceptance, ExposureTerms, NewJob } from '#shared/jobs/admission-store.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import { acceptTestJob, bindTestKey, jobInState } from '../../support/ledger/job-in-state.ts'
import { AMPLE_FUNDS, newTestJob, TEST_PRICE } from '../../support/ledger/new-test-job.ts'
import { recordStatements } from '../../support/ledger/record-statements.ts'
import { randomAddress, testAuthorization, testPermit } from '../../support/ledger/test-authorization.ts'
import { createTestLedger, TEST_LIMITS, type TestLedger } from '../../support/ledger/test-ledger.ts'
import { until } from '../../support/until.ts'

let ledger: TestLedger
beforeAll(async () => {
  ledger = await createTestLedger()
})
afterAll(() => ledger.close())

const TWENTY = Array.from({ length: 20 }, (_, index) => index)
const UNREAD: ExposureTerms = { ...AMPLE_FUNDS, funds: null }

/** Returns a bound request without an upload: what payments that wait at the same time may be accepted with together. */
async function newShortJob(overrides: Partial<NewJob> = {}, into = ledger): Promise<NewJob> {
  const { stagedUpload: _, ...job } = newTestJob()
  const short = { ...job, stagedUpload: null, exposure: UNREAD, ...overrides }
  await bindTestKey(into, newTestJob({ idempotencyKey: short.idempotencyKey }))
  return short
}

/** Returns a request of a payer that must be refused: an earlier result of theirs is not paid for. */
async function newDebtorsJob(): Promise<NewJob> {
  const { payer } = (await jobInState(ledger, 'settlement_failed')).authorization
  return await newShortJob({ authorization: testAuthorization({ payer }) })
}

const acceptAll = (jobs: readonly NewJob[], stores = [ledger.admission]) =>
  Promise.all(jobs.map(async (job, index) => await stores[index % stores.length]?.acceptJob(job)))

async function claimsOf(jobs: readonly NewJob[]): Promise<number> {
  const nonces = jobs.map(({ authorization }) => authorization.nonce.toString())
  const [row] = await ledger.sql<{ count: number }>(
    'SELECT count(*)::int FROM authorizations WHERE nonce = ANY($1::numeric[])',
    [nonces],
  )
  return row?.count ?? -1
}

function outcomes(acceptances: readonly (Acceptance | undefined)[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const one of acceptances) counts[one?.outcome ?? 'none'] = (counts[one?.outcome ?? 'none'] ?? 0) + 1
  return counts
}

const otherProcess = () => createAdmissionStore(ledger.pool, TEST_LIMITS)

describe('payments that are accepted together', () => {
  it('accepts twenty payments of different payers in one transaction', async () => {
    const jobs = await Promise.all(TWENTY.map(() => newShortJob()))
    expect(outcomes(await acceptAll(jobs))).toEqual({ accepted: 20 })
    const keys = jobs.map(({ idempotencyKey }) => idempotencyKey)
    const rows = await ledger.sql<{ transaction: string; as_asked: boolean }>(
      `SELECT jobs.xmin::text AS transaction, keys.job_id = jobs.id AND authorizations.job_id = jobs.id
         AND authorizations.payer = jobs.payer AND jobs.request_digest = keys.request_digest AS as_asked
       FROM jobs JOIN idempotency_keys AS keys USING (idempotency_key)
       JOIN authorizations ON authorizations.id = jobs.authorization_id WHERE idempotency_key = ANY($1)`,
      [keys],
    )
    expect(rows.map(({ as_asked }) => as_asked)).toEqual(TWENTY.map(() => true))
    expect(new Set(rows.map(({ transaction }) => transaction)).size).toBe(1)
  })

  it('accepts twenty payments of one payer in one transaction, each counted for those after it', async () => {
    const { payer } = testAuthorization()
    const balance = 15n * TEST_PRICE
    const funds = { ...AMPLE_FUNDS.funds, balance, allowance: balance, blockNumber: 1n, usedNonces: new Set<bigint>() }
    const exposure = { ...AMPLE_FUNDS, funds } as unknown as ExposureTerms
    const jobs = await Promise.all(
      TWENTY.map(() => newShortJob({ authorization: testAuthorization({ payer }), exposure })),
    )
    const acceptances = await acceptAll(jobs)
    expect(acceptances.map((one) => one?.outcome)).toEqual(
      TWENTY.map((index) => (index < 15 ? 'accepted' : 'exceeds_funds')),
    )
    expect(acceptances.at(-1)).toMatchObject({ openTotal: balance })
    const rows = await ledger.sql<{ transaction: string }>(
      'SELECT xmin::text AS transaction FROM jobs WHERE payer = $1',
      [payer],
    )
    expect(rows).toHaveLength(15)
    expect(new Set(rows.map(({ transaction }) => transaction)).size).toBe(1)
  })

  it('accepts one of twenty payments with one permit, and names the permit to the others, not their funds', async () => {
    const { payer } = testAuthorization()
    const funds = { ...AMPLE_FUNDS.funds, balance: TEST_PRICE, blockNumber: 1n, usedNonces: new Set<bigint>() }
    const exposure = { ...AMPLE_FUNDS, needsPermit: true, funds } as unknown as ExposureTerms
    const gasSponsoring = testPermit(payer, 0n)
    const jobs = await Promise.all(
      TWENTY.map(() => newShortJob({ authorization: testAuthorization({ payer, gasSponsoring }), exposure })),
    )
    expect(outcomes(await acceptAll(jobs))).toEqual({ accepted: 1, permit_already_used: 19 })
  })

  it('lets few payments of a payer wait for another process, and strangers not at all', async () => {
    const { payer } = testAuthorization()
    const jobs = await Promise.all(
      TWENTY.map(() => newShortJob({ authorization: testAuthorization({ payer }), exposure: AMPLE_FUNDS })),
    )
    const later = await Promise.all(
      TWENTY.map(() => newShortJob({ authorization: testAuthorization({ payer }), exposure: AMPLE_FUNDS })),
    )
    const stranger = await newShortJob()
    const holder = await ledger.pool.connect()
    await holder.query('BEGIN')
    await holder.query("SELECT pg_advisory_xact_lock(hashtextextended('farebox payer ' || $1 || ' ' || $2, 0))", [
      testAuthorization().network,
      payer,
    ])
    const acceptances = acceptAll(jobs)
    const waiting = async () =>
      await ledger.sql(`SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'`)
    await until(async () => (await waiting()).length > 0)
    // These come while some of the first ones wait.
    const laterAcceptances = acceptAll(later)
    expect(await ledger.admission.acceptJob(stranger)).toMatchObject({ outcome: 'accepted' })
    expect((await waiting()).length).toBeLessThanOrEqual(3)
    await holder.query('COMMIT')
    holder.release()
    expect(outcomes([...(await acceptances), ...(await laterAcceptances)])).toEqual({ accepted: 40 })
  })

  it('sums up the uncharged work of a payer once for all of their payments', async () => {
    const single = await createTestLedger(1)
    try {
      const payer = randomAddress()
      const ofPayer = () => ({ authorization: testAuthorization({ payer }) })
      const empty = { code: 'provider_empty_output', reason: 'test', attempt: 'failed_empty' } as const
      await single.execution.failJob(await jobInState(single, 'generating', newTestJob(ofPayer())), empty)
      // What the payer paid allows them that much.
      await jobInState(single, 'completed', newTestJob(ofPayer()))
      const budget = { ...TEST_LIMITS.budget, perPayer: atomicAmount(1n) }
      const store = createAdmissionStore(single.pool, { ...TEST_LIMITS, budget })
      const jobs = await Promise.all(TWENTY.map(() => newShortJob({ ...ofPayer(), exposure: AMPLE_FUNDS }, single)))
      const read: string[] = []
      await recordStatements(single, (statement) => typeof statement !== 'string' && read.push(statement.name))
      expect(outcomes(await acceptAll(jobs, [store]))).toEqual({ accepted: 20 })
      const written = ['claim_nonces', 'insert_jobs']
      expect(read.toSorted()).toEqual(
        ['lock_free_keys', 'read_exposures_by_block', 'read_uncharged_budget', ...written].toSorted(),
      )
    } finally {
      await single.close()
    }
  })

  it('holds the limit of new payers for many payments of one of them', async () => {
    await ledger.sql('UPDATE jobs SET is_new_payer = false')
    await ledger.sql('UPDATE uncharged_work SET is_new_payer = false')
    const store = createAdmissionStore(ledger.pool, { ...TEST_LIMITS, newPayers: atomicAmount(10n * TEST_PRICE) })
    const payers = [randomAddress(), randomAddress()]
    for (const round of [1, 2, 3]) {
      const payments = payers.flatMap((payer) =>
        TWENTY.map(() => newShortJob({ authorization: testAuthorization({ payer }), exposure: AMPLE_FUNDS })),
      )
      const jobs = await Promise.all(payments)
      const counted = outcomes(await acceptAll(jobs, [store]))
      expect(counted).toEqual(round === 1 ? { accepted: 10, new_payer_limit: 30 } : { new_payer_limit: 40 })
      await delay(120)
    }
  })

  it('refuses one of them without undoing the others, and keeps nothing of it', async () => {
    const debtors = await newDebtorsJob()
    const jobs = [...(await Promise.all(TWENTY.map(() => newShortJob()))), debtors]
    expect(outcomes(await acceptAll(jobs))).toEqual({ accepted: 20, unpaid_debt: 1 })
    expect(await claimsOf([debtors])).toBe(0)
  })

  it('rolls everything of a batch back when each is refused', async () => {
    const jobs = [await newDebtorsJob(), await newDebtorsJob()]
    expect(outcomes(await acceptAll(jobs))).toEqual({ unpaid_debt: 2 })
    expect(await claimsOf(jobs)).toBe(0)
  })

  it('accepts one of twenty payments with one nonce under different keys, over two processes', async () => {
    const authorization = testAuthorization()
    const jobs = await Promise.all(TWENTY.map(() => newShortJob({ authorization })))
    const others = await Promise.all(TWENTY.map(() => newShortJob()))
    const acceptances = await acceptAll([...jobs, ...others], [ledger.admission, otherProcess()])
    expect(outcomes(acceptances)).toEqual({ accepted: 21, authorization_already_used: 19 })
    expect(await claimsOf([{ ...newTestJob(), authorization }])).toBe(1)
  })

  it('accepts one of twenty payments under one key, over two processes', async () => {
    const job = await newShortJob()
    const { payer } = job.authorization
    const jobs = TWENTY.map(() => ({ ...job, authorization: testAuthorization({ payer }) }))
    const acceptances = await acceptAll(jobs, [ledger.admission, otherProcess()])
    expect(outcomes(acceptances)).toEqual({ accepted: 1, exists: 19 })
    expect(await claimsOf(jobs)).toBe(1)
  })

  it('accepts as many payments of each payer as their funds cover, over two processes', async () => {
    const payers = Array.from({ length: 5 }, randomAddress)
    const funds = { ...AMPLE_FUNDS.funds, balance: 3n * TEST_PRICE, allowance: 3n * TEST_PRICE, blockNumber: 1n }
    const exposure = { ...AMPLE_FUNDS, funds: { ...funds, usedNonces: new Set<bigint>() } } as unknown as ExposureTerms
    const jobs = await Promise.all(
      TWENTY.flatMap(() => payers).map((payer) =>
        newShortJob({ authorization: testAuthorization({ payer }), exposure }),
      ),
    )
    const acceptances = await acceptAll(jobs, [ledger.admission, otherProcess()])
    expect(outcomes(acceptances)).toEqual({ accepted: 15, exceeds_funds: 85 })
    const open = await ledger.sql('SELECT count(*)::int AS open FROM jobs WHERE payer = ANY($1) GROUP BY payer', [
      payers,
    ])
    expect(open).toEqual(payers.map(() => ({ open: 3 })))
  })

  it('does not wait for the lock of another payment', async () => {
    const [locked, ...jobs] = await Promise.all(TWENTY.map(() => newShortJob()))
    if (!locked) throw new Error('no job')
    const holder = await ledger.pool.connect()
    await holder.query('BEGIN')
    await holder.query('SELECT FROM idempotency_keys WHERE idempotency_key = $1 FOR UPDATE', [locked.idempotencyKey])
    const waiting = ledger.admission.acceptJob(locked)
    expect(outcomes(await acceptAll(jobs))).toEqual({ accepted: 19 })
    await holder.query('COMMIT')
    holder.release()
    expect(await waiting).toMatchObject({ outcome: 'accepted' })
  })

  it('writes nothing when their connection is lost between the parts, and accepts them afterwards', async () => {
    const jobs = await Promise.all(TWENTY.map(() => newShortJob()))
    const holder = await ledger.pool.connect()
    try {
      // The claims are made and judged, and the jobs wait to be written.
      await holder.query('BEGIN')
      await holder.query('LOCK TABLE jobs IN SHARE MODE')
      const acceptances = Promise.allSettled(jobs.map((job) => ledger.admission.acceptJob(job)))
      await until(async () => {
        const ended = await ledger.sql(
          `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
           WHERE datname = current_database() AND query LIKE '%INSERT INTO jobs%' AND wait_event_type = 'Lock'`,
        )
        return ended.length === 1
      })
      expect((await acceptances).map(({ status }) => status)).toEqual(TWENTY.map(() => 'rejected'))
    } finally {
      await holder.query('ROLLBACK')
      holder.release()
    }
    expect(await claimsOf(jobs)).toBe(0)
    expect(outcomes(await acceptAll(jobs))).toEqual({ accepted: 20 })
  })

  it('accepts the others when one cannot be stored', async () => {
    const poisoned = await newShortJob({ effectiveJson: Buffer.from([0xff, 0xfe]) })
    const jobs = await Promise.all(TWENTY.map(() => newShortJob()))
    const settled = await Promise.allSettled([poisoned, ...jobs].map((job) => ledger.admission.acceptJob(job)))
    expect(settled[0]).toMatchObject({ status: 'rejected', reason: { code: '22021' } })
    const accepted = settled.slice(1).map((one) => (one.status === 'fulfilled' ? one.value.outcome : one.reason))
    expect(accepted).toEqual(TWENTY.map(() => 'accepted'))
    expect(await claimsOf([poisoned])).toBe(0)
  })
})

describe('a payment that is accepted alone', () => {
  it('reports the first error of statements that were sent together', async () => {
    const job = await newShortJob({ effectiveJson: Buffer.from([0xff, 0xfe]) })
    await expect(ledger.admission.acceptJob(job)).rejects.toMatchObject({ code: '22021' })
    expect(await claimsOf([job])).toBe(0)
  })

  it('reads of a payer’s settlements only those that show that they are established', async () => {
    const { payer } = testAuthorization()
    for (let calls = 0; calls < 12; calls++)
      await jobInState(ledger, 'completed', newTestJob({ authorization: testAuthorization({ payer }) }))
    const store = createAdmissionStore(ledger.pool, {
      ...TEST_LIMITS,
      budget: { ...TEST_LIMITS.budget, perPayer: TEST_PRICE },
    })
    const next = await newShortJob({ authorization: testAuthorization({ payer }), exposure: AMPLE_FUNDS })
    // The charges after the block of the funds are read as well.
    const readBefore = await settlementsRead()
    expect(
      await store.acceptJob({
        ...next,
        exposure: { ...AMPLE_FUNDS, funds: { ...AMPLE_FUNDS.funds, blockNumber: 7n } } as unknown as ExposureTerms,
      }),
    ).toMatchObject({ outcome: 'accepted' })
    expect((await settlementsRead()) - readBefore).toBeLessThan(6)
    const [row] = await ledger.sql('SELECT is_new_payer FROM jobs WHERE idempotency_key = $1', [next.idempotencyKey])
    expect(row).toEqual({ is_new_payer: false })
    const newcomers = await acceptTestJob(ledger)
    expect(await ledger.sql('SELECT is_new_payer FROM jobs WHERE id = $1', [newcomers])).toEqual([
      { is_new_payer: true },
    ])
  })
})

async function settlementsRead(): Promise<number> {
  // Each connection reports what it read when it is idle; those of the pool are asked in turn.
  await Promise.all(Array.from({ length: 24 }, () => ledger.sql('SELECT pg_stat_force_next_flush(), pg_sleep(0.05)')))
  const [row] = await ledger.sql<{ read: number }>(
    "SELECT idx_tup_read::int AS read FROM pg_stat_user_indexes WHERE indexrelname = 'settlements_by_payer'",
  )
  return row?.read ?? Number.NaN
}
