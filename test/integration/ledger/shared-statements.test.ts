import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { LeasedJob, NewResult } from '#shared/jobs/job.ts'
import { createAcceptanceStore } from '#shared/ledger/acceptance/acceptance-store.ts'
import type { Acceptance, NewJob } from '#shared/ledger/acceptance/acceptance.ts'
import { createExecutionStore } from '#shared/ledger/execution/execution-store.ts'
import { type SharedStatement, shareStatement } from '#shared/ledger/share-statements.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import type { ExposureTerms } from '#shared/payment/exposure.ts'
import { writeHistory } from '../../support/ledger/history/write-history.ts'
import { acceptTestJob, bindTestKey, called, jobInState, storedState } from '../../support/ledger/job-in-state.ts'
import { AMPLE_FUNDS, newTestJob, TEST_PRICE } from '../../support/ledger/new-test-job.ts'
import { recordStatements } from '../../support/ledger/record-statements.ts'
import { randomAddress, testAuthorization, testPermit } from '../../support/ledger/test-authorization.ts'
import { createTestLedger, TEST_LIMITS, type TestLedger } from '../../support/ledger/test-ledger.ts'
import { until } from '../../support/until.ts'

const TWENTY = Array.from({ length: 20 }, (_, index) => index)
const UNREAD: ExposureTerms = { ...AMPLE_FUNDS, funds: null }
function outcomes(acceptances: readonly (Acceptance | undefined)[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const one of acceptances) counts[one?.outcome ?? 'none'] = (counts[one?.outcome ?? 'none'] ?? 0) + 1
  return counts
}
const LEASE_MS = 60_000
const FIVE = [0, 1, 2, 3, 4]
const resultOf = (resultBody: string): NewResult => ({
  usage: { input_audio_ms: 2000 },
  chargeAmount: TEST_PRICE,
  resultBody,
  resultDigest: 'd'.repeat(64),
})
interface SeparateStatements<Item, Result> extends Pick<SharedStatement<Item, Result>, 'keyOf' | 'lockOf'> {
  readonly together: (items: readonly Item[]) => Promise<ReadonlyMap<string, Result>>
  readonly alone: (item: Item) => Promise<Result>
}
/** Shares a statement that does something else for a single item, which waits for locked rows. */
function shareSeparately<Item, Result>({ together, alone, ...keys }: SeparateStatements<Item, Result>) {
  return shareStatement<Item, Result>({
    ...keys,
    run: async (items, lockedRows) =>
      lockedRows === 'skip'
        ? await together(items)
        : new Map(await Promise.all(items.map(async (item) => [keys.keyOf(item), await alone(item)] as const))),
  })
}
/** Items with the same first letter are of one turn. */
const BY_LETTER = { keyOf: (item: string) => item, lockOf: (item: string) => item.slice(0, 1) }

describe('payments that are accepted together', () => {
  let ledger: TestLedger
  beforeAll(async () => {
    ledger = await createTestLedger()
  })

  afterAll(() => ledger.close())

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
  const acceptAll = (jobs: readonly NewJob[], stores = [ledger.acceptance]) =>
    Promise.all(jobs.map(async (job, index) => await stores[index % stores.length]?.acceptPayment(job)))
  async function claimsOf(jobs: readonly NewJob[]): Promise<number> {
    const nonces = jobs.map(({ authorization }) => authorization.nonce.toString())
    const [row] = await ledger.sql<{ count: number }>(
      'SELECT count(*)::int FROM authorizations WHERE nonce = ANY($1::numeric[])',
      [nonces],
    )
    return row?.count ?? -1
  }
  async function countDeadlocks(): Promise<string | undefined> {
    await ledger.sql('SELECT pg_stat_force_next_flush()')
    const [row] = await ledger.sql<{ deadlocks: string }>(
      'SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()',
    )
    return row?.deadlocks
  }
  const otherProcess = () => createAcceptanceStore(ledger.pool, TEST_LIMITS)
  describe('payments that are accepted together', () => {
    it('accepts twenty payments of different payers in one transaction, whether or not their funds were read', async () => {
      const jobs = await Promise.all(
        TWENTY.map((index) => newShortJob({ exposure: index % 2 === 0 ? UNREAD : AMPLE_FUNDS })),
      )
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
      const funds = {
        ...AMPLE_FUNDS.funds,
        balance,
        allowance: balance,
        blockNumber: 1n,
        usedNonces: new Set<bigint>(),
      }
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

    it('accepts payments of one payer that share a lasting permit together, up to what it permits', async () => {
      const { payer } = testAuthorization()
      const funds = {
        ...AMPLE_FUNDS.funds,
        allowance: 0n,
        permitNonce: 0n,
        blockNumber: 1n,
        usedNonces: new Set<bigint>(),
      }
      const exposure = { ...AMPLE_FUNDS, funds } as unknown as ExposureTerms
      const gasSponsoring = { ...testPermit(payer, 0n), amount: 15n * TEST_PRICE }
      const newJob = () => newShortJob({ authorization: testAuthorization({ payer, gasSponsoring }), exposure })
      const jobs = await Promise.all(TWENTY.map(newJob))
      expect(outcomes(await acceptAll(jobs))).toEqual({ accepted: 15, exceeds_funds: 5 })
      const rows = await ledger.sql<{ transaction: string; permit_nonce: string | null }>(
        `SELECT jobs.xmin::text AS transaction, permit_nonce
       FROM jobs JOIN authorizations ON authorizations.id = authorization_id WHERE jobs.payer = $1`,
        [payer],
      )
      expect(new Set(rows.map(({ transaction }) => transaction)).size).toBe(1)
      expect(new Set(rows.map(({ permit_nonce }) => permit_nonce))).toEqual(new Set([null]))
      expect(outcomes(await acceptAll([await newJob()]))).toEqual({ exceeds_funds: 1 })
    })

    it('orders the jobs of a payer in one transaction as they were judged', async () => {
      const { payer } = testAuthorization()
      const ofPayer = () => ({ authorization: testAuthorization({ payer }), exposure: AMPLE_FUNDS })
      const jobs = await Promise.all(TWENTY.map(() => newShortJob(ofPayer())))
      expect(outcomes(await acceptAll(jobs))).toEqual({ accepted: 20 })
      const stored = await ledger.sql<{ idempotency_key: string; transaction: string }>(
        `SELECT idempotency_key, xmin::text AS transaction FROM jobs WHERE payer = $1 ORDER BY accepted_at, id`,
        [payer],
      )
      expect(stored.map(({ idempotency_key }) => idempotency_key)).toEqual(
        jobs.map(({ idempotencyKey }) => idempotencyKey),
      )
      expect(new Set(stored.map(({ transaction }) => transaction)).size).toBe(1)
    })

    it('orders the jobs of a payer as they were judged, not as their transactions began', async () => {
      const { payer } = testAuthorization()
      const ofPayer = () => ({ authorization: testAuthorization({ payer }), exposure: AMPLE_FUNDS })
      const failed = newTestJob(ofPayer())
      await jobInState(ledger, 'failed', failed)
      // One of each kind: a new job, and one that runs again.
      const jobs = [await newShortJob(ofPayer()), { ...failed, ...ofPayer(), stagedUpload: null }]
      const holder = await ledger.pool.connect()
      await holder.query('BEGIN')
      await holder.query("SELECT pg_advisory_xact_lock(hashtextextended('farebox payer ' || $1 || ' ' || $2, 0))", [
        testAuthorization().network,
        payer,
      ])
      const acceptances = acceptAll(jobs, [ledger.acceptance, otherProcess()])
      await until(async () => {
        const waiting = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'`
        return (await ledger.sql(waiting)).length === jobs.length
      })
      const { rows } = await holder.query<{ judged_after: Date }>('SELECT clock_timestamp() AS judged_after')
      await holder.query('COMMIT')
      holder.release()
      expect(outcomes(await acceptances)).toEqual({ accepted: 2 })
      const late = `SELECT FROM jobs WHERE payer = $1 AND accepted_at > $2`
      expect(await ledger.sql(late, [payer, rows[0]?.judged_after])).toHaveLength(2)
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
      expect(await ledger.acceptance.acceptPayment(stranger)).toMatchObject({ outcome: 'accepted' })
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
        const store = createAcceptanceStore(single.pool, { ...TEST_LIMITS, budget })
        const jobs = await Promise.all(TWENTY.map(() => newShortJob({ ...ofPayer(), exposure: AMPLE_FUNDS }, single)))
        const read: string[] = []
        await recordStatements(single, (statement) => typeof statement !== 'string' && read.push(statement.name))
        expect(outcomes(await acceptAll(jobs, [store]))).toEqual({ accepted: 20 })
        const ofNewPayers = ['read_paid', 'await_turn_of_new_payers', 'read_new_payer_exposure']
        const written = ['claim_nonces', 'insert_jobs']
        expect(read.toSorted()).toEqual(
          ['read_exposures', 'read_uncharged_budget', ...ofNewPayers, ...written].toSorted(),
        )
      } finally {
        await single.close()
      }
    })

    it('holds the limit of new payers for many payments of one of them', async () => {
      await ledger.sql('UPDATE jobs SET is_new_payer = false')
      await ledger.sql('UPDATE uncharged_work SET is_new_payer = false')
      const store = createAcceptanceStore(ledger.pool, { ...TEST_LIMITS, newPayers: atomicAmount(10n * TEST_PRICE) })
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
      const acceptances = await acceptAll([...jobs, ...others], [ledger.acceptance, otherProcess()])
      expect(outcomes(acceptances)).toEqual({ accepted: 21, authorization_already_used: 19 })
      expect(await claimsOf([{ ...newTestJob(), authorization }])).toBe(1)
    })

    it('accepts one of twenty payments under one key, over two processes', async () => {
      const job = await newShortJob()
      const { payer } = job.authorization
      const jobs = TWENTY.map(() => ({ ...job, authorization: testAuthorization({ payer }) }))
      const acceptances = await acceptAll(jobs, [ledger.acceptance, otherProcess()])
      expect(outcomes(acceptances)).toEqual({ accepted: 1, exists: 19 })
      expect(await claimsOf(jobs)).toBe(1)
    })

    it('accepts as many payments of each payer as their funds cover, over two processes', async () => {
      const payers = Array.from({ length: 5 }, randomAddress)
      const funds = { ...AMPLE_FUNDS.funds, balance: 3n * TEST_PRICE, allowance: 3n * TEST_PRICE, blockNumber: 1n }
      const exposure = {
        ...AMPLE_FUNDS,
        funds: { ...funds, usedNonces: new Set<bigint>() },
      } as unknown as ExposureTerms
      const jobs = await Promise.all(
        TWENTY.flatMap(() => payers).map((payer) =>
          newShortJob({ authorization: testAuthorization({ payer }), exposure }),
        ),
      )
      const acceptances = await acceptAll(jobs, [ledger.acceptance, otherProcess()])
      expect(outcomes(acceptances)).toEqual({ accepted: 15, exceeds_funds: 85 })
      const open = await ledger.sql('SELECT count(*)::int AS open FROM jobs WHERE payer = ANY($1) GROUP BY payer', [
        payers,
      ])
      expect(open).toEqual(payers.map(() => ({ open: 3 })))
    })

    it('blocks nobody for ever when processes accept the same payments of one payer in opposite orders', async () => {
      const before = await countDeadlocks()
      for (let round = 0; round < 5; round += 1) {
        const { payer } = testAuthorization()
        const newJob = () => newShortJob({ authorization: testAuthorization({ payer }), exposure: AMPLE_FUNDS })
        const jobs = await Promise.all(TWENTY.map(newJob))
        const acceptances = await Promise.all([
          acceptAll(jobs),
          acceptAll(jobs.toReversed(), [otherProcess()]),
          acceptAll(jobs, [otherProcess()]),
        ])
        expect(outcomes(acceptances.flat())).toEqual({ accepted: 20, exists: 40 })
      }
      expect(await countDeadlocks()).toBe(before)
    })

    it.each([
      ['', []],
      [', also beside one that cannot be stored', [Buffer.from([0xff, 0xfe])]],
    ])('gives each of those that waited together for their payer its own outcome%s', async (_, unstorable) => {
      const { payer } = testAuthorization()
      const newJob = (overrides: Partial<NewJob> = {}) =>
        newShortJob({ authorization: testAuthorization({ payer }), exposure: AMPLE_FUNDS, ...overrides })
      const [first, second, third] = [await newJob(), await newJob(), await newJob()]
      const sameNonce = await newJob({ authorization: first.authorization })
      const otherRequest = { ...(await newJob()), requestDigest: 'e'.repeat(64) }
      const tooMuch = await newJob({ exposure: { ...AMPLE_FUNDS, maximumOpen: atomicAmount(1n) } })
      const others = await Promise.all(unstorable.map((effectiveJson) => newJob({ effectiveJson })))
      const holder = await ledger.pool.connect()
      await holder.query('BEGIN')
      await holder.query("SELECT pg_advisory_xact_lock(hashtextextended('farebox payer ' || $1 || ' ' || $2, 0))", [
        first.authorization.network,
        payer,
      ])
      const acceptances = acceptAll([first, sameNonce, second, otherRequest, tooMuch, third, ...others])
      await until(async () => {
        const waiting = await ledger.sql(
          "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
        )
        return waiting.length === 1
      })
      await holder.query('COMMIT')
      holder.release()
      expect(outcomes(await acceptances)).toEqual({
        accepted: 3,
        authorization_already_used: 1,
        other_request: 1,
        exceeds_open_limit: 1,
        ...(others.length > 0 ? { unstorable: others.length } : {}),
      })
      expect(await claimsOf([first, second, third, tooMuch, ...others])).toBe(3)
    })

    it('does not wait for the lock of another payment', async () => {
      const [locked, ...jobs] = await Promise.all(TWENTY.map(() => newShortJob()))
      if (!locked) throw new Error('no job')
      const holder = await ledger.pool.connect()
      await holder.query('BEGIN')
      await holder.query('SELECT FROM idempotency_keys WHERE idempotency_key = $1 FOR UPDATE', [locked.idempotencyKey])
      const waiting = ledger.acceptance.acceptPayment(locked)
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
        const acceptances = Promise.allSettled(jobs.map((job) => ledger.acceptance.acceptPayment(job)))
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
      const settled = await Promise.allSettled([poisoned, ...jobs].map((job) => ledger.acceptance.acceptPayment(job)))
      expect(settled[0]).toMatchObject({ value: { outcome: 'unstorable', sqlState: '22021' } })
      const accepted = settled.slice(1).map((one) => (one.status === 'fulfilled' ? one.value.outcome : one.reason))
      expect(accepted).toEqual(TWENTY.map(() => 'accepted'))
      expect(await claimsOf([poisoned])).toBe(0)
    })
  })

  describe('a payment that is accepted alone', () => {
    it('reports the first error of statements that were sent together', async () => {
      const job = await newShortJob({ effectiveJson: Buffer.from([0xff, 0xfe]) })
      expect(await ledger.acceptance.acceptPayment(job)).toEqual({ outcome: 'unstorable', sqlState: '22021' })
      expect(await claimsOf([job])).toBe(0)
    })

    it('reads of a payer’s settlements only those that show that they are established', async () => {
      // With the statistics of many settlements, and one connection, each of which counts what it reads by itself.
      const single = await createTestLedger(1)
      const settlementsRead = async () => {
        await single.sql('SELECT pg_stat_force_next_flush()')
        const [row] = await single.sql<{ read: number }>(
          `SELECT (seq_tup_read + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname = 'settlements'))::int
             AS read FROM pg_stat_user_tables WHERE relname = 'settlements'`,
        )
        return row?.read ?? Number.NaN
      }
      try {
        await writeHistory(single.url, { calls: 2000, days: 20, payers: 200 })
        const { payer } = testAuthorization()
        for (let calls = 0; calls < 12; calls++)
          await jobInState(single, 'completed', newTestJob({ authorization: testAuthorization({ payer }) }))
        const store = createAcceptanceStore(single.pool, {
          ...TEST_LIMITS,
          budget: { ...TEST_LIMITS.budget, perPayer: TEST_PRICE },
        })
        const authorization = testAuthorization({ payer })
        const next = await newShortJob({ authorization, exposure: AMPLE_FUNDS }, single)
        // The charges after the block of the funds are read as well.
        const readBefore = await settlementsRead()
        expect(
          await store.acceptPayment({
            ...next,
            exposure: { ...AMPLE_FUNDS, funds: { ...AMPLE_FUNDS.funds, blockNumber: 7n } } as unknown as ExposureTerms,
          }),
        ).toMatchObject({ outcome: 'accepted' })
        const read = (await settlementsRead()) - readBefore
        expect(read).toBeGreaterThan(0)
        expect(read).toBeLessThan(6)
        const isNew = (id: string) => single.sql('SELECT is_new_payer FROM jobs WHERE id = $1', [id])
        const [row] = await single.sql<{ id: string }>('SELECT id FROM jobs WHERE idempotency_key = $1', [
          next.idempotencyKey,
        ])
        expect(await isNew(row?.id ?? '')).toEqual([{ is_new_payer: false }])
        expect(await isNew(await acceptTestJob(single))).toEqual([{ is_new_payer: true }])
      } finally {
        await single.close()
      }
    })
  })
})

describe('statements for several items', () => {
  let ledger: TestLedger
  beforeAll(async () => {
    ledger = await createTestLedger()
  })

  afterAll(() => ledger.close())

  /** Returns jobs without uploads. */
  const jobsIn = (state: 'accepted' | 'generating') =>
    Promise.all(FIVE.map(() => jobInState(ledger, state, { ...newTestJob(), stagedUpload: null } as never)))
  async function attemptOf({ id }: LeasedJob): Promise<string> {
    const [row] = await ledger.sql<{ id: string }>('SELECT id FROM upstream_attempts WHERE job_id = $1', [id])
    return row?.id ?? randomUUID()
  }
  /** Locks the job's row until the returned function is called. */
  async function lockRow({ id }: Pick<LeasedJob, 'id'>): Promise<() => Promise<void>> {
    const holder = await ledger.pool.connect()
    await holder.query('BEGIN')
    await holder.query('SELECT FROM jobs WHERE id = $1 FOR UPDATE', [id])
    return async () => {
      await holder.query('COMMIT')
      holder.release()
    }
  }
  describe('jobs that are claimed at the same time', () => {
    it('gives each to one of two workers, also one that is delivered twice', async () => {
      const ids = await Promise.all(FIVE.map(() => acceptTestJob(ledger)))
      const workers = [ledger.execution, createExecutionStore(ledger.pool, TEST_LIMITS.budget)]
      const claims = await Promise.all(
        [...ids, ...ids, ...ids].map(async (id, index) => await workers[index % 2]?.leaseJob(id, LEASE_MS)),
      )
      const claimed = claims.flatMap((claim) => claim?.id ?? [])
      expect(claimed.toSorted()).toEqual(ids.toSorted())
      for (const id of ids) expect(await storedState(ledger, id)).toEqual({ state: 'accepted', fence: '1' })
    })

    it('claims the others while the row of one is locked, and that one afterwards', async () => {
      const ids = await Promise.all(FIVE.map(() => acceptTestJob(ledger)))
      const [lockedId = '', ...others] = ids
      const unlock = await lockRow({ id: lockedId })
      const [waiting, ...claims] = ids.map((id) => ledger.execution.leaseJob(id, LEASE_MS))
      expect((await Promise.all(claims)).map((claim) => claim?.id)).toEqual(others)
      await unlock()
      expect(await waiting).toMatchObject({ id: lockedId, fence: 1n })
    })

    it('claims the others when the row of one cannot be read, and reports that one', async () => {
      const ids = await Promise.all(FIVE.map(() => acceptTestJob(ledger)))
      const [unreadable = '', ...others] = ids
      await ledger.sql(
        `UPDATE authorizations SET signed = signed || '{"nonce": "not a number"}' FROM jobs
       WHERE authorizations.id = jobs.authorization_id AND jobs.id = $1`,
        [unreadable],
      )
      const claims = await Promise.allSettled(ids.map((id) => ledger.execution.leaseJob(id, LEASE_MS)))
      expect(claims.map((claim) => (claim.status === 'fulfilled' ? claim.value?.id : 'failed'))).toEqual([
        'failed',
        ...others,
      ])
    })
  })

  describe('jobs that are moved at the same time', () => {
    it('starts an attempt for each, but not under a stale fence', async () => {
      const jobs = await jobsIn('accepted')
      const [stale, ...current] = jobs
      if (!stale) throw new Error('no job')
      const asked = [{ ...stale, fence: stale.fence - 1n }, ...current]
      const started = await Promise.all(asked.map((job) => ledger.execution.startAttempt(job, called('one'), null)))
      expect(started.map(({ written }) => written)).toEqual(['stale', ...current.map(() => 'written')])
      const attempts = await ledger.sql<{ id: string; job_id: string; authorization_id: string }>(
        'SELECT id, job_id, authorization_id FROM upstream_attempts WHERE job_id = ANY($1)',
        [jobs.map(({ id }) => id)],
      )
      expect(new Set(attempts.map((row) => `${row.id} ${row.job_id} ${row.authorization_id}`))).toEqual(
        new Set(current.map((job, index) => `${started[index + 1]?.attemptId} ${job.id} ${job.authorizationId}`)),
      )
      expect(await storedState(ledger, stale.id)).toMatchObject({ state: 'accepted' })
    })

    it('starts the others while the row of one is locked, and that one afterwards', async () => {
      const jobs = await jobsIn('accepted')
      const [locked, ...others] = jobs
      if (!locked) throw new Error('no job')
      const unlock = await lockRow(locked)
      const [waiting, ...starting] = jobs.map((job) => ledger.execution.startAttempt(job, called('one'), null))
      expect((await Promise.all(starting)).map(({ written }) => written)).toEqual(others.map(() => 'written'))
      await unlock()
      expect(await waiting).toMatchObject({ written: 'written' })
    })

    it('seals each result with its own job, and fails only the one that cannot be stored', async () => {
      const jobs = await jobsIn('generating')
      const attempts = await Promise.all(jobs.map(attemptOf))
      const bodies = jobs.map(({ id }, index) => (index === 2 ? 'not \u0000 storable' : `"result of ${id}"`))
      const sealed = await Promise.allSettled(
        jobs.map((job, index) =>
          ledger.execution.sealResult(
            job,
            attempts[index] ?? '',
            resultOf(bodies[index] ?? ''),
            null,
            index === 0 ? null : atomicAmount(BigInt(index)),
          ),
        ),
      )
      expect(
        sealed.map((one) => (one.status === 'fulfilled' ? one.value : (one.reason as { code: string }).code)),
      ).toEqual(['written', 'written', '22021', 'written', 'written'])
      const rows = await ledger.sql<{ id: string; result_body: string; attempt: string; vendor_cost: string | null }>(
        `SELECT jobs.id, result_body, upstream_attempts.state AS attempt, vendor_cost
       FROM jobs JOIN upstream_attempts ON job_id = jobs.id WHERE jobs.id = ANY($1) AND jobs.state = 'generated'`,
        [jobs.map(({ id }) => id)],
      )
      expect(rows).toHaveLength(4)
      for (const { id, result_body, attempt, vendor_cost } of rows) {
        const index = jobs.findIndex((job) => job.id === id)
        expect(result_body).toBe(`"result of ${id}"`)
        expect(attempt).toBe('succeeded')
        expect(vendor_cost).toBe(index === 0 ? null : String(index))
      }
    })

    it('reads the exposure ahead of each job by itself', async () => {
      const jobs = await jobsIn('accepted')
      const [first] = jobs
      if (!first) throw new Error('no job')
      const later = newTestJob({ authorization: { ...newTestJob().authorization, payer: first.authorization.payer } })
      const second = await jobInState(ledger, 'accepted', later)
      const read = await Promise.all(
        [...jobs, second].map((job, index) =>
          ledger.execution.readExposureAhead(job, index % 2 === 0 ? null : AMPLE_FUNDS.funds),
        ),
      )
      expect(read.map(({ open }) => open.length)).toEqual([0, 0, 0, 0, 0, 1])
      expect(read.at(-1)?.open[0]?.nonce).toBe(first.authorization.nonce)
    })
  })

  describe('a shared statement', () => {
    it('runs alone for a single item, and for all who wait while it runs', async () => {
      const runs: (readonly string[])[] = []
      const first = Promise.withResolvers<void>()
      const share = shareSeparately<{ readonly key: string }, string>({
        keyOf: ({ key }) => key,
        together: async (items) => {
          runs.push(items.map(({ key }) => key))
          return new Map(items.map(({ key }) => [key, `shared ${key}`]))
        },
        alone: async ({ key }) => {
          runs.push([key])
          await first.promise
          return `alone ${key}`
        },
      })
      const a = share({ key: 'a' })
      await until(() => runs.length === 1)
      const others = ['b', 'c', 'b'].map((key) => share({ key }))
      first.resolve()
      expect(await Promise.all([a, ...others])).toEqual(['alone a', 'shared b', 'shared c', 'alone b'])
      expect(runs).toEqual([['a'], ['b', 'c'], ['b']])
    })

    it('takes items of one key in their order', async () => {
      const done: number[] = []
      const share = shareSeparately<number, number>({
        keyOf: () => 'one key',
        together: async (items) => {
          done.push(...items)
          return new Map(items.map((item) => ['one key', item]))
        },
        alone: async (item) => {
          done.push(item)
          return item
        },
      })
      const items = [0, 1, 2, 3, 4]
      expect(await Promise.all(items.map((item) => share(item)))).toEqual(items)
      expect(done).toEqual(items)
    })

    it('lets those that were left out wait together for each lock, and does alone what is left out again', async () => {
      const runs: string[] = []
      const share = shareStatement<string, string>({
        ...BY_LETTER,
        run: async (items, lockedRows) => {
          runs.push(`${lockedRows} ${items.join(' ')}`)
          const isDone = (item: string) => (lockedRows === 'skip' ? item === 'a1' : items.length === 1 || item !== 'b2')
          return new Map(items.filter(isDone).map((item) => [item, `${lockedRows} ${items.length} ${item}`]))
        },
      })
      const done = await Promise.all(['a1', 'b1', 'a2', 'b2', 'b3', 'c1', 'a3'].map((item) => share(item)))
      expect(done).toEqual(['skip 7 a1', 'wait 3 b1', 'wait 2 a2', 'wait 1 b2', 'wait 3 b3', 'wait 1 c1', 'wait 2 a3'])
      expect(runs.toSorted()).toEqual(
        ['skip a1 b1 a2 b2 b3 c1 a3', 'wait a2 a3', 'wait b1 b2 b3', 'wait b2', 'wait c1'].toSorted(),
      )
    })

    it('fails only an item that makes the statement fail', async () => {
      const share = shareStatement<string, string>({
        ...BY_LETTER,
        run: async (items, lockedRows) => {
          if (items.includes('a2')) throw new Error('not storable')
          return new Map(items.map((item) => [item, `${lockedRows} ${items.length}`]))
        },
      })
      const items = ['a1', 'a2', 'b1', 'a3', 'b2']
      const done = await Promise.allSettled(items.map((item) => share(item)))
      expect(done.map((one) => (one.status === 'fulfilled' ? one.value : 'failed'))).toEqual([
        'wait 1',
        'failed',
        'wait 2',
        'wait 1',
        'wait 2',
      ])
    })

    it('fails every item whose server cannot be reached, and serves those after them', async () => {
      let isAway = true
      const share = shareStatement<string, string>({
        ...BY_LETTER,
        run: async (items) => {
          if (isAway) throw Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })
          return new Map(items.map((item) => [item, item]))
        },
      })
      const failed = await Promise.allSettled(['a1', 'a2', 'b1'].map((item) => share(item)))
      expect(failed.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected'])
      isAway = false
      expect(await Promise.all(['a1', 'a2'].map((item) => share(item)))).toEqual(['a1', 'a2'])
    })

    it('does not wait for longer than a moment for a statement that hangs', async () => {
      let hasBegun = false
      const hanging = Promise.withResolvers<string>()
      const share = shareSeparately<string, string>({
        keyOf: (item) => item,
        together: async () => new Map(),
        alone: (item) => {
          hasBegun = true
          return item === 'hangs' ? hanging.promise : Promise.resolve(item)
        },
      })
      const first = share('hangs')
      await until(() => hasBegun)
      expect(await share('other')).toBe('other')
      hanging.resolve('ended')
      expect(await first).toBe('ended')
    })
  })
})
