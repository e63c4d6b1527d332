import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { JOB_STATES, type JobState, type LeasedJob } from '#shared/jobs/job.ts'
import { isUnfinished, mayMove } from '#shared/jobs/transitions.ts'
import type { Pool } from '#shared/ledger/pool.ts'
import { readNonceGaps } from '#shared/ledger/reports/nonce-gaps.ts'
import { createSettlementStore, type SettlementStore } from '#shared/ledger/settlement/settlement-store.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import {
  acceptTestJob,
  called,
  claimTestJob,
  completionOf,
  type FencedWrite,
  fencedWrites,
  jobInState,
  storedState,
} from '../../support/ledger/job-in-state.ts'
import { AMPLE_FUNDS, newTestJob } from '../../support/ledger/new-test-job.ts'
import { settlingBatch } from '../../support/ledger/settling-batch.ts'
import { randomAddress, testAuthorization, testPermit } from '../../support/ledger/test-authorization.ts'
import { signRandomBytes } from '../../support/ledger/test-batch.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'
import { until } from '../../support/until.ts'

const writes = Object.keys(fencedWrites) as FencedWrite[]
/** Returns whether a worker may make a move: only of unfinished jobs, while a payment may reopen finished ones. */
function workerMayMove(from: JobState, write: FencedWrite): boolean {
  return isUnfinished(from) && mayMove(from, fencedWrites[write].to)
}
const NETWORK = 'eip155:8453'

describe('transitions between the states of a job', () => {
  let ledger: TestLedger
  beforeAll(async () => {
    ledger = await createTestLedger()
  })

  afterAll(() => ledger.close())

  describe.each(JOB_STATES)('a %s job', (from) => {
    it.each(writes)(
      'allows %s exactly when the transition table does, and only under the job’s fence',
      async (write) => {
        const job = await jobInState(ledger, from)
        const before = await ledger.fingerprint()
        expect(await fencedWrites[write].run(ledger, { ...job, fence: job.fence - 1n })).toBe('stale')
        expect(await fencedWrites[write].run(ledger, { ...job, fence: job.fence + 1n })).toBe('stale')
        expect(await ledger.fingerprint()).toBe(before)

        const allowed = workerMayMove(from, write)
        expect(await fencedWrites[write].run(ledger, job)).toBe(allowed ? 'written' : 'stale')
        expect((await storedState(ledger, job.id)).state).toBe(allowed ? fencedWrites[write].to : from)
        expect((await ledger.fingerprint()) === before).toBe(!allowed)
      },
    )
  })

  describe('a claim', () => {
    it('assigns a job to exactly one of twenty simultaneous claims', async () => {
      const jobId = await acceptTestJob(ledger)
      const claims = await Promise.all(Array.from({ length: 20 }, () => ledger.execution.leaseJob(jobId, 60_000)))
      expect(claims.filter((claim) => claim !== null)).toHaveLength(1)
      expect(await storedState(ledger, jobId)).toEqual({ state: 'accepted', fence: '1' })
    })

    it.each(JOB_STATES)('allows a claim of a %s job only if it is unfinished', async (state) => {
      const { id } = await jobInState(ledger, state)
      await expireLease(id)
      const claim = await ledger.execution.leaseJob(id, 60_000)
      expect(claim?.state ?? null).toBe(isUnfinished(state) ? state : null)
    })

    it('refuses a claim during a provider call’s grace period after its lease expired', async () => {
      const late = await jobInState(ledger, 'generating')
      await ledger.sql("UPDATE jobs SET lease_expires_at = now() - interval '1 hour' WHERE id = $1", [late.id])
      expect(await ledger.execution.leaseJob(late.id, 60_000)).toBeNull()
      expect(await ledger.execution.leaseJob(late.id, 60_000)).toBeNull()
      expect(await fencedWrites.sealResult.run(ledger, late)).toBe('written')
    })

    it('allows a claim of a provider call after its grace period', async () => {
      const late = await jobInState(ledger, 'generating')
      await ledger.sql("UPDATE jobs SET lease_expires_at = now() - interval '1 hour' WHERE id = $1", [late.id])
      expect(await ledger.execution.leaseJob(late.id, 60)).toBeNull()
      await expect.poll(() => ledger.execution.leaseJob(late.id, 60_000)).not.toBeNull()
      expect(await fencedWrites.sealResult.run(ledger, late)).toBe('stale')
    })

    it('starts a new grace period after the worker of a provider call renewed its lease', async () => {
      const job = await jobInState(ledger, 'generating')
      await ledger.sql("UPDATE jobs SET lease_expires_at = now() - interval '1 hour' WHERE id = $1", [job.id])
      expect(await ledger.execution.leaseJob(job.id, 60_000)).toBeNull()
      expect(await ledger.execution.renewLeases([job], 60_000)).toEqual([])
      await ledger.sql("UPDATE jobs SET lease_expires_at = now() - interval '1 hour' WHERE id = $1", [job.id])
      expect(await ledger.execution.leaseJob(job.id, 60_000)).toBeNull()
    })

    it('refuses a claim until the lease has expired, then raises the fence', async () => {
      const jobId = await acceptTestJob(ledger)
      const first = await claimTestJob(ledger, jobId)
      expect(await ledger.execution.leaseJob(jobId, 60_000)).toBeNull()
      await expireLease(jobId)
      const second = await claimTestJob(ledger, jobId)
      expect(second.fence).toBe(first.fence + 1n)
    })

    it('allows a claim once a short lease has expired by the clock of PostgreSQL', async () => {
      const jobId = await acceptTestJob(ledger)
      await claimTestJob(ledger, jobId, 50)
      await expect.poll(() => ledger.execution.leaseJob(jobId, 60_000)).not.toBeNull()
    })

    it('refuses a claim of a deferred job until it is due', async () => {
      const jobId = await acceptTestJob(ledger)
      const job = await claimTestJob(ledger, jobId)
      expect(await ledger.execution.deferJob(job, 60_000)).toBe('written')
      expect(await ledger.execution.leaseJob(jobId, 60_000)).toBeNull()
      await ledger.sql("UPDATE jobs SET run_after = now() - interval '1 second' WHERE id = $1", [jobId])
      expect(await ledger.execution.leaseJob(jobId, 60_000)).not.toBeNull()
    })
  })

  it('makes a deferred job due for the worker that deferred it, unless it is claimed', async () => {
    const jobId = await acceptTestJob(ledger)
    const job = await claimTestJob(ledger, jobId)
    expect(await ledger.execution.wakeJob(job)).toBe('stale')
    await ledger.execution.deferJob(job, 60_000)
    expect(await ledger.execution.wakeJob(job)).toBe('written')
    const claimed = await claimTestJob(ledger, jobId)
    await ledger.execution.deferJob(claimed, 60_000)
    expect(await ledger.execution.wakeJob(job)).toBe('stale')
    expect(await ledger.execution.leaseJob(jobId, 60_000)).toBeNull()
  })

  describe('a worker whose lease was taken over', () => {
    const unfinished = JOB_STATES.filter(isUnfinished)

    it.each(unfinished)('rejects every write of a worker that lost its lease on a %s job', async (state) => {
      const late = await jobInState(ledger, state)
      await expireLease(late.id)
      const present = await claimTestJob(ledger, late.id)
      const before = await ledger.fingerprint()
      for (const write of writes) expect([write, await fencedWrites[write].run(ledger, late)]).toEqual([write, 'stale'])
      expect(await ledger.execution.renewLeases([late], 60_000)).toEqual([late])
      expect(await ledger.execution.releaseJob(late)).toBe('stale')
      expect(await ledger.execution.deferJob(late, 0)).toBe('stale')
      expect(await ledger.execution.wakeJob(late)).toBe('stale')
      expect(await ledger.fingerprint()).toBe(before)
      expect(await ledger.execution.renewLeases([present, late], 60_000)).toEqual([late])
    })

    it('signs no settlement under a stale fence', async () => {
      const late = await jobInState(ledger, 'generated')
      await expireLease(late.id)
      await claimTestJob(ledger, late.id)
      let signatures = 0
      const written = await ledger.settlement.recordSettlement(late, {
        chargeAmount: newTestJob().quote.quotedMaximum,
        minimumAccountNonce: 0n,
        sign: () => {
          signatures += 1
          return Promise.reject(new Error('signed under a stale fence'))
        },
      })
      expect([written, signatures]).toEqual(['stale', 0])
    })
  })

  describe('rows written together with a transition', () => {
    it.each([
      ['failed_definite', 'failed_definite', null],
      ['failed_ambiguous', 'failed_ambiguous', 'kept'],
    ] as const)(
      'ends an open attempt as %s, and erases the upload only after a definite failure',
      async (attempt, state, key) => {
        const job = await jobInState(ledger, 'generating')
        await ledger.execution.failJob(job, { code: 'provider_outcome_unknown', reason: 'test', attempt })
        expect(await ledger.sql('SELECT state, reason FROM upstream_attempts WHERE job_id = $1', [job.id])).toEqual([
          { state, reason: 'test' },
        ])
        const [upload] = await ledger.sql<{ data_key: Buffer | null }>(
          'SELECT data_key FROM staged_uploads WHERE job_id = $1',
          [job.id],
        )
        expect(upload?.data_key === null ? null : 'kept').toBe(key)
      },
    )

    it('ends the failed attempt and starts the next deployment’s together', async () => {
      const job = await jobInState(ledger, 'generating')
      const [first] = await attemptsOf(job.id)
      const failed = { attemptId: first?.id ?? '', reason: 'HTTP 429' }
      const { written, attemptId } = await ledger.execution.startAttempt(job, called('second'), failed)
      expect(written).toBe('written')
      expect(await attemptsOf(job.id)).toEqual([
        { id: first?.id, deployment: 'elevenlabs', state: 'failed_definite', reason: 'HTTP 429' },
        { id: attemptId, deployment: 'second', state: 'open', reason: null },
      ])
    })

    it('rejects a second attempt while the first is open or has failed ambiguously', async () => {
      const job = await jobInState(ledger, 'generating')
      const before = await ledger.fingerprint()
      await expect(ledger.execution.startAttempt(job, called('second'), null)).rejects.toThrow(
        'one_call_per_authorization',
      )
      expect(await ledger.fingerprint()).toBe(before)
      await ledger.sql(
        "UPDATE upstream_attempts SET state = 'failed_ambiguous', finished_at = now() WHERE job_id = $1",
        [job.id],
      )
      await expect(ledger.execution.startAttempt(job, called('second'), null)).rejects.toThrow(
        'one_call_per_authorization',
      )
    })

    it('ends the attempt, erases the upload and fixes the charge when a result is sealed', async () => {
      const job = await jobInState(ledger, 'generated')
      expect(
        await ledger.sql(
          `SELECT upstream_attempts.state, data_key, charge_amount
         FROM jobs JOIN upstream_attempts ON upstream_attempts.job_id = jobs.id
           JOIN staged_uploads ON staged_uploads.id = staged_upload_id WHERE jobs.id = $1`,
          [job.id],
        ),
      ).toEqual([{ state: 'succeeded', data_key: null, charge_amount: '5034' }])
    })

    it('writes settlement and receipt when a job completes, and releases the result only then [spec L6a]', async () => {
      const job = await jobInState(ledger, 'settling')
      expect((await ledger.acceptance.readOutcomes([job.id])).get(job.id)).toEqual({ state: 'settling' })
      expect(await fencedWrites.completeJob.run(ledger, job)).toBe('written')
      const outcome = (await ledger.acceptance.readOutcomes([job.id])).get(job.id)
      expect(outcome).toMatchObject({
        state: 'completed',
        resultBody: expect.stringContaining('one canary'),
        receiptSecretId: 'first',
      })
      expect(await ledger.sql('SELECT state, block_number FROM settlements WHERE job_id = $1', [job.id])).toEqual([
        { state: 'confirmed', block_number: '7' },
      ])
    })

    it('writes nothing when a job would complete on another job’s settlement', async () => {
      const [job, other] = [await jobInState(ledger, 'settling'), await jobInState(ledger, 'settling')]
      const before = await ledger.fingerprint()
      const { settlementId } = await completionOf(ledger, other)
      const completion = { ...(await completionOf(ledger, job)), settlementId }
      await expect(ledger.settlement.completeJob(job, completion)).rejects.toThrow('no open settlement')
      expect(await ledger.fingerprint()).toBe(before)
    })

    it.each(['failed', 'settlement_failed', 'review'] as const)(
      'never returns the result of a %s job',
      async (state) => {
        const job = await jobInState(ledger, state)
        expect(JSON.stringify((await ledger.acceptance.readOutcomes([job.id])).get(job.id))).not.toContain('canary')
      },
    )
  })

  async function attemptsOf(jobId: string) {
    return await ledger.sql<{ id: string }>(
      'SELECT id, deployment, state, reason FROM upstream_attempts WHERE job_id = $1 ORDER BY started_at',
      [jobId],
    )
  }
  async function expireLease(jobId: string): Promise<void> {
    await ledger.sql(
      "UPDATE jobs SET lease_expires_at = now() - interval '1 second', orphaned_at = now() WHERE id = $1",
      [jobId],
    )
  }
})

describe('completing jobs', () => {
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
  async function settlingJobs(count: number): Promise<LeasedJob[]> {
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
    const complete = async (job: LeasedJob, changes = {}) =>
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
})

describe('account nonces of settlement keys', () => {
  let ledger: TestLedger
  beforeAll(async () => {
    ledger = await createTestLedger()
  })

  afterAll(() => ledger.close())

  async function generatedJobs(count: number, facilitator: `0x${string}`): Promise<LeasedJob[]> {
    return await Promise.all(
      Array.from({ length: count }, () =>
        jobInState(ledger, 'generated', newTestJob({ authorization: testAuthorization({ facilitator }) })),
      ),
    )
  }
  function record(job: LeasedJob, minimumAccountNonce: bigint, sign = signRandomBytes, store = ledger.settlement) {
    return store.recordSettlement(job, { chargeAmount: atomicAmount(5034n), minimumAccountNonce, sign })
  }
  async function storedNonces(facilitator: string): Promise<number[]> {
    const rows = await ledger.sql<{ nonce: number }>(
      'SELECT account_nonce::int AS nonce FROM settlements WHERE facilitator = $1 ORDER BY account_nonce',
      [facilitator],
    )
    return rows.map(({ nonce }) => nonce)
  }
  it('assigns consecutive account nonces to fifty simultaneous settlements of one key by two stores, sixteen until the chain has mined some', async () => {
    const facilitator = randomAddress()
    let jobs = await generatedJobs(50, facilitator)
    const stores = [ledger.settlement, createSettlementStore(ledger.pool)]
    const recordAll = async (minedCount: bigint) => {
      const written = await Promise.all(
        jobs.map((job, index) => record(job, minedCount, signRandomBytes, stores[index % 2])),
      )
      jobs = jobs.filter((_, index) => written[index] === 'queue_full')
      return written.filter((outcome) => typeof outcome !== 'string').length
    }
    expect(await recordAll(7n)).toBe(16)
    expect(await recordAll(0n)).toBe(0)
    expect(await recordAll(12n)).toBe(5)
    // By what the keeper of the nonce queue has seen.
    await ledger.settlement.readNonceQueue({ network: 'eip155:8453', facilitator }, 28n)
    expect(await recordAll(0n)).toBe(16)
    expect(await Promise.all(jobs.map(async ({ id }) => (await storedState(ledger, id)).state))).toEqual(
      jobs.map(() => 'generated'),
    )
    expect(await recordAll(44n)).toBe(13)
    expect(await storedNonces(facilitator)).toEqual(Array.from({ length: 50 }, (_, index) => 7 + index))
  })

  it('leaves no nonce gap after a settlement that rolls back or has a stale fence', async () => {
    const facilitator = randomAddress()
    const jobs = await generatedJobs(25, facilitator)
    const results = await Promise.allSettled(
      jobs.map((job, index) => {
        if (index % 5 === 0) return record(job, 0n, () => Promise.reject(new Error('the key cannot sign')))
        if (index % 5 === 1) return record({ ...job, fence: job.fence - 1n }, 0n)
        return record(job, 0n)
      }),
    )
    expect(results.filter(({ status }) => status === 'rejected')).toHaveLength(5)
    expect(await storedNonces(facilitator)).toEqual(Array.from({ length: 15 }, (_, index) => index))
    // Settlements that rolled back can be recorded afterwards.
    const [first] = jobs
    expect(first && (await record(first, 0n))).not.toBe('stale')
    expect((await storedNonces(facilitator)).at(-1)).toBe(15)
  })

  it('counts account nonces separately for each key', async () => {
    const [one, other] = [randomAddress(), randomAddress()]
    for (const facilitator of [one, other]) for (const job of await generatedJobs(2, facilitator)) await record(job, 0n)
    expect([await storedNonces(one), await storedNonces(other)]).toEqual([
      [0, 1],
      [0, 1],
    ])
  })

  it('continues from the chain’s transaction count when it is ahead, and never goes back', async () => {
    const facilitator = randomAddress()
    const minimums = [3n, 0n, 10n, 4n]
    const jobs = await generatedJobs(minimums.length, facilitator)
    for (const [index, minimum] of minimums.entries()) {
      const job = jobs[index]
      if (job) await record(job, minimum)
    }
    expect(await storedNonces(facilitator)).toEqual([3, 4, 10, 11])
  })

  it('stores the transaction that was signed for the taken account nonce', async () => {
    const job = await jobInState(ledger, 'generated')
    const signed: { accountNonce: bigint; hash: string; raw: string }[] = []
    const recorded = await record(job, 5n, async (accountNonce) => {
      const transaction = await signRandomBytes(accountNonce)
      signed.push({ accountNonce, ...transaction })
      return transaction
    })
    const settlement = await ledger.settlement.readSettlement(job)
    expect(signed).toHaveLength(1)
    expect(settlement).toEqual(recorded)
    const sender = job.authorization.facilitator
    expect(settlement.transactions).toEqual([{ hash: signed[0]?.hash, raw: signed[0]?.raw, sender, accountNonce: 5n }])
  })

  it('follows a transaction count slightly ahead of the ledger, but not one far ahead', async () => {
    const facilitator = randomAddress()
    const [first, second, third, fourth] = await generatedJobs(4, facilitator)
    if (!first || !second || !third || !fourth) throw new Error('four jobs')
    await record(first, 5n)
    await record(second, 1_000_000n)
    await record(third, 17n)
    await record(fourth, 0n)
    expect(await storedNonces(facilitator)).toEqual([5, 6, 17, 18])
  })

  it.each<[string, string, number[]]>([
    ['by the worker that keeps the key', 'head_account_nonce = 9', [3, 2]],
    ['after the last worker that kept the key', 'head_account_nonce = 8', [3]],
  ])(
    'reports a nonce used elsewhere after the ledger’s last one for the days around it, not for every day since: noticed %s',
    async (_, head, days) => {
      const facilitator = randomAddress()
      // Nonces before the ledger's first one belong to earlier uses of the key.
      for (const job of await generatedJobs(2, facilitator)) await record(job, 6n)
      await ledger.sql(
        "UPDATE settlement_transactions SET signed_at = now() - interval '62 hours' WHERE facilitator = $1",
        [facilitator],
      )
      await ledger.sql(
        `UPDATE settlement_accounts SET ${head}, head_since = now() - interval '38 hours',
       kept_until = now() - interval '61 hours' WHERE facilitator = $1`,
        [facilitator],
      )
      const account = { network: NETWORK, facilitator }
      const found: number[] = []
      for (const day of [4, 3, 2, 1]) {
        const [period] = await ledger.sql<{ from: string; to: string }>(
          `SELECT now() - make_interval(days => $1) AS from, now() - make_interval(days => $1 - 1) AS to`,
          [day],
        )
        if (!period) throw new Error('one row')
        const gaps = await readNonceGaps(ledger.pool, account, 9n, period)
        if (gaps.length > 0) found.push(day)
        expect(gaps).toEqual(gaps.length > 0 ? [{ first: 8n, last: 8n }] : [])
      }
      expect(found).toEqual(days)
    },
  )
})
