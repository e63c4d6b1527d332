import { randomUUID } from 'node:crypto'
import type pg from 'pg'
import { Registry } from 'prom-client'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, test } from 'vitest'
import { type AcceptanceStore, createAcceptanceStore } from '#shared/ledger/acceptance/acceptance-store.ts'
import type { NewJob } from '#shared/ledger/acceptance/acceptance.ts'
import type { KeyBinding } from '#shared/ledger/acceptance/bind-key.ts'
import { createProcessReportStore } from '#shared/ledger/configuration/process-report-store.ts'
import { createPool, type Pool, type PreparedStatement } from '#shared/ledger/pool.ts'
import { readKeyUse } from '#shared/ledger/reports/key-use.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import { withDeadline } from '#shared/runtime/with-deadline.ts'
import { addKeyMetrics } from '../../../workers/telemetry/key-metrics.ts'
import { acceptTestJob, bindTestKey, jobInState } from '../../support/ledger/job-in-state.ts'
import { newTestJob, paidAgain, type TestJob } from '../../support/ledger/new-test-job.ts'
import { settlingBatch } from '../../support/ledger/settling-batch.ts'
import { testAuthorization } from '../../support/ledger/test-authorization.ts'
import { newTestBatch, renewalOf, TEST_CONTRACT } from '../../support/ledger/test-batch.ts'
import { createTestLedger, TEST_LIMITS, type TestLedger } from '../../support/ledger/test-ledger.ts'

function requests(changes: Partial<TestJob> = {}): { first: NewJob; pricier: NewJob; other: NewJob } {
  const first = newTestJob(changes)
  return {
    first,
    pricier: {
      ...first,
      quote: { ...first.quote, quotedMaximum: atomicAmount(9999n), catalogVersion: 'catalog-later' },
    },
    other: { ...first, requestDigest: 'f'.repeat(64) },
  }
}
const DESCRIBED = { sha256: 'a'.repeat(64), bytes: 1000, durationMs: 2000 }
const bind = (store: AcceptanceStore, { idempotencyKey, requestDigest, quote }: NewJob) =>
  store.bindKey({ idempotencyKey, requestDigest, quote, lifetimeSeconds: 600 })

describe('binding an idempotency key', () => {
  let ledger: TestLedger
  beforeAll(async () => {
    ledger = await createTestLedger()
  })

  afterAll(() => ledger.close())

  async function expire({ idempotencyKey }: NewJob): Promise<void> {
    await ledger.sql(
      "UPDATE idempotency_keys SET expires_at = now() - interval '1 second' WHERE idempotency_key = $1",
      [idempotencyKey],
    )
  }
  async function failedJob() {
    const { first, other } = requests()
    const { id } = await jobInState(ledger, 'failed', first as TestJob)
    return { id, first, other, stranger: { ...first, authorization: testAuthorization() } }
  }
  describe('the key of a job that ended uncharged', () => {
    it('keeps the key of an uncharged job with its payer and request until its challenge expires', async () => {
      const { id, first, other, stranger } = await failedJob()
      expect(await bindTestKey(ledger, other)).toEqual({ outcome: 'other_request' })
      expect(await ledger.acceptance.acceptPayment(stranger)).toEqual({ outcome: 'other_request' })
      expect(
        (await ledger.acceptance.findKnownRequest(first.idempotencyKey, stranger.authorization)).holder?.isReleasable,
      ).toBe(false)
      expect(await ledger.acceptance.acceptPayment(paidAgain(first as TestJob))).toEqual({
        outcome: 'accepted',
        jobId: id,
      })
    })

    it('binds the key of an uncharged job to another request or payer once its challenge has expired; the job keeps its rows', async () => {
      const { id, first, other } = await failedJob()
      await expire(first)
      expect(await ledger.acceptance.findBinding(first.idempotencyKey)).toBeNull()
      expect(
        (await ledger.acceptance.findKnownRequest(first.idempotencyKey, first.authorization)).holder?.isReleasable,
      ).toBe(true)
      const next = { ...other, authorization: testAuthorization(), stagedUpload: null }
      const acceptance = await acceptTestJob(ledger, next)
      expect(acceptance).not.toBe(id)
      expect(
        await ledger.sql('SELECT state, idempotency_key, released_idempotency_key FROM jobs WHERE id = $1', [id]),
      ).toEqual([{ state: 'failed', idempotency_key: null, released_idempotency_key: first.idempotencyKey }])
      expect(await ledger.sql('SELECT 1 FROM authorizations WHERE job_id = $1', [id])).toHaveLength(1)
      // The payment of the failed job pays for nothing else.
      expect((await ledger.acceptance.findKnownRequest(first.idempotencyKey, first.authorization)).claim).toMatchObject(
        {
          jobId: id,
        },
      )
    })

    it('binds the key of an uncharged job to the same request of another payer once its challenge has expired', async () => {
      const { id, first, stranger } = await failedJob()
      await expire(first)
      expect(await bindTestKey(ledger, first)).toMatchObject({ outcome: 'bound' })
      const acceptance = await ledger.acceptance.acceptPayment({ ...stranger, stagedUpload: null })
      expect(acceptance.outcome).toBe('accepted')
      expect(acceptance).not.toMatchObject({ jobId: id })
    })

    it.each(['accepted', 'completed', 'settlement_failed', 'review'] as const)(
      'is not released by a job that is %s',
      async (state) => {
        const { first, other } = requests()
        const { id } = await jobInState(ledger, state, first as TestJob)
        await expire(first)
        expect(await bindTestKey(ledger, other)).toEqual({ outcome: 'other_request' })
        expect(await bindTestKey(ledger, first)).toMatchObject({ outcome: 'bound' })
        const [row] = await ledger.sql('SELECT job_id FROM idempotency_keys WHERE idempotency_key = $1', [
          first.idempotencyKey,
        ])
        expect(row).toEqual({ job_id: id })
      },
    )

    it('either releases the key of an uncharged job or reopens the job, when its payer returns as it expires', async () => {
      const ids = await Promise.all(Array.from({ length: 20 }, failedJob))
      await Promise.all(ids.map(({ first }) => expire(first)))
      await Promise.all(
        ids.map(async ({ id, first, other }) => {
          const [bound, reopened] = await Promise.all([
            bindTestKey(ledger, other),
            ledger.acceptance.acceptPayment(paidAgain(first as TestJob)),
          ])
          const [job] = await ledger.sql('SELECT state, idempotency_key FROM jobs WHERE id = $1', [id])
          expect({ bound: bound.outcome, reopened: reopened.outcome, ...job }).toEqual(
            reopened.outcome === 'accepted'
              ? {
                  bound: 'other_request',
                  reopened: 'accepted',
                  state: 'accepted',
                  idempotency_key: first.idempotencyKey,
                }
              : { bound: 'bound', reopened: 'other_request', state: 'failed', idempotency_key: null },
          )
        }),
      )
    })
  })

  describe('a bound key', () => {
    it('keeps the first quote of a key until its challenge expires, even if the catalog changes', async () => {
      const { first, pricier } = requests()
      await bindTestKey(ledger, first)
      expect(await bindTestKey(ledger, pricier)).toMatchObject({ outcome: 'bound', quote: first.quote })
    })

    it('binds a key to the current quote once its challenge has expired', async () => {
      const { first, pricier } = requests()
      await bindTestKey(ledger, first)
      await expire(first)
      expect(await bindTestKey(ledger, pricier)).toMatchObject({ outcome: 'bound', quote: pricier.quote })
    })

    it('rejects another request under a bound key without changing anything', async () => {
      const { first, other } = requests()
      await bindTestKey(ledger, first)
      const before = await ledger.fingerprint()
      expect(await bindTestKey(ledger, other)).toEqual({ outcome: 'other_request' })
      expect(await ledger.fingerprint()).toBe(before)
    })

    it('binds a key to another request once its challenge has expired without a job', async () => {
      const { first, other } = requests()
      await bindTestKey(ledger, first)
      await expire(first)
      expect(await bindTestKey(ledger, other)).toMatchObject({ outcome: 'bound' })
      expect(await bindTestKey(ledger, first)).toEqual({ outcome: 'other_request' })
    })

    it('keeps a key with a job bound permanently', async () => {
      const { first, other } = requests()
      await acceptTestJob(ledger, first)
      await expire(first)
      expect(await bindTestKey(ledger, other)).toEqual({ outcome: 'other_request' })
      expect(await bindTestKey(ledger, first)).toMatchObject({ outcome: 'bound' })
    })

    it('expires a challenge after its lifetime, by the clock of PostgreSQL', async () => {
      const { first } = requests()
      const binding = await bindTestKey(ledger, first, 120)
      const [clock] = await ledger.sql<{ now: Date }>('SELECT now()')
      const remaining = binding.outcome === 'bound' ? binding.expiresAt.getTime() - (clock?.now.getTime() ?? 0) : 0
      expect(remaining).toBeGreaterThan(110_000)
      expect(remaining).toBeLessThanOrEqual(120_000)
    })
  })

  /** A key that a claim binds, the request that the claim is for, and one with another recording. */
  async function describedKey() {
    const { first, other } = requests()
    expect(await bindDescription(first)).toMatchObject({ outcome: 'bound', quote: first.quote })
    return { first, other }
  }
  const bindDescription = ({ idempotencyKey, requestDigest, quote }: NewJob) =>
    ledger.acceptance.bindKey({ idempotencyKey, requestDigest, quote, lifetimeSeconds: 600, describedAudio: DESCRIBED })
  const replaceDescription = ({ idempotencyKey, requestDigest, quote }: NewJob, { requestDigest: described }: NewJob) =>
    ledger.acceptance.replaceDescription({ idempotencyKey, requestDigest, quote, lifetimeSeconds: 600 }, described)
  const bindingOf = async ({ idempotencyKey }: NewJob) => {
    const binding = await ledger.acceptance.findBinding(idempotencyKey)
    return binding && { digest: binding.requestDigest, description: binding.description, quote: binding.quote }
  }
  describe('a key that is bound by a description about a recording', () => {
    it('keeps the description with the key, also when the key is bound outside of a batch', async () => {
      const { first } = await describedKey()
      const description = { audio: DESCRIBED, isReplaced: false }
      expect(await bindingOf(first)).toEqual({ digest: first.requestDigest, description, quote: first.quote })
      expect(await bindDescription(first)).toMatchObject({ outcome: 'bound' })
      expect((await bindingOf(first))?.description).toEqual(description)
      await expire(first)
      expect(await bindDescription({ ...first, requestDigest: 'f'.repeat(64) })).toMatchObject({ outcome: 'bound' })
      expect((await bindingOf(first))?.description).toEqual(description)
    })

    it('is replaced by the recording itself, at its price, with a new challenge', async () => {
      const { first, other } = await describedKey()
      await ledger.sql("UPDATE idempotency_keys SET expires_at = now() + interval '5 s' WHERE idempotency_key = $1", [
        first.idempotencyKey,
      ])
      const pricier = { ...other, quote: { ...other.quote, quotedMaximum: atomicAmount(9999n) } }
      await replaceDescription(pricier, first)
      const description = { audio: DESCRIBED, isReplaced: true }
      expect(await bindingOf(first)).toEqual({ digest: other.requestDigest, description, quote: pricier.quote })
      // Nothing makes it replaceable again.
      for (const rebind of [bindTestKey(ledger, pricier), bindDescription(pricier), replaceDescription(first, pricier)])
        await rebind
      expect(await bindingOf(first)).toEqual({ digest: other.requestDigest, description, quote: pricier.quote })
      const [row] = await ledger.sql(
        "SELECT expires_at > now() + interval '590 s' AS is_new FROM idempotency_keys WHERE idempotency_key = $1",
        [first.idempotencyKey],
      )
      expect(row).toEqual({ is_new: true })
      expect(await ledger.acceptance.acceptPayment(first)).toEqual({ outcome: 'other_request' })
      expect(await ledger.acceptance.acceptPayment(pricier)).toMatchObject({ outcome: 'accepted' })
    })

    it('is bound to the request for good once the request itself arrives, and no description undoes that', async () => {
      const { first, other } = await describedKey()
      expect(await bindTestKey(ledger, first)).toMatchObject({ outcome: 'bound' })
      expect((await bindingOf(first))?.description).toBeNull()
      expect(await bindDescription(first)).toMatchObject({ outcome: 'bound' })
      expect((await bindingOf(first))?.description).toBeNull()
      await replaceDescription(other, first)
      expect((await bindingOf(first))?.digest).toBe(first.requestDigest)
    })

    it('refuses a description about another recording', async () => {
      const { other } = await describedKey()
      expect(await bindDescription(other)).toEqual({ outcome: 'other_request' })
    })

    it.each(['accepted', 'completed', 'failed', 'review'] as const)(
      'is never replaced once a job under it is %s, and a description about the same request changes nothing',
      async (state) => {
        const { first, other } = await describedKey()
        await jobInState(ledger, state, first as TestJob)
        expect(await bindDescription(first)).toMatchObject({ outcome: 'bound' })
        await replaceDescription(other, first)
        expect(await bindingOf(first)).toEqual({ digest: first.requestDigest, description: null, quote: first.quote })
      },
    )

    it('is replaced by one of twenty simultaneous recordings, and paid for by none that lost', async () => {
      const { first } = await describedKey()
      const recordings = Array.from({ length: 20 }, (_, index) => ({
        ...newTestJob({ idempotencyKey: first.idempotencyKey, requestDigest: String(index).padStart(64, '0') }),
      }))
      const bindings = await Promise.all(
        recordings.map(async (recording) => {
          await replaceDescription(recording, first)
          return await bindTestKey(ledger, recording)
        }),
      )
      expect(bindings.filter(({ outcome }) => outcome === 'bound')).toHaveLength(1)
      const acceptances = await Promise.all(recordings.map((recording) => ledger.acceptance.acceptPayment(recording)))
      expect(acceptances.map(({ outcome }) => outcome).toSorted()).toEqual([
        'accepted',
        ...Array.from({ length: 19 }, () => 'other_request'),
      ])
    })

    it('is either replaced or paid for, never both, when another recording arrives during the acceptance', async () => {
      const keys = await Promise.all(Array.from({ length: 20 }, describedKey))
      await Promise.all(
        keys.map(async ({ first, other }) => {
          const [accepted] = await Promise.all([
            ledger.acceptance.acceptPayment(first),
            replaceDescription(other, first),
          ])
          const { digest } = (await bindingOf(first)) ?? {}
          expect({ accepted: accepted.outcome, digest }).toEqual(
            accepted.outcome === 'accepted'
              ? { accepted: 'accepted', digest: first.requestDigest }
              : { accepted: 'other_request', digest: other.requestDigest },
          )
        }),
      )
    })
  })

  it('binds a key for exactly one of twenty simultaneous different requests', async () => {
    const idempotencyKey = randomUUID()
    const bindings = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        bindTestKey(ledger, newTestJob({ idempotencyKey, requestDigest: String(index).padStart(64, '0') })),
      ),
    )
    expect(bindings.filter(({ outcome }) => outcome === 'bound')).toHaveLength(1)
  })

  it('binds a key once for twenty simultaneous identical requests', async () => {
    const job = newTestJob()
    const bindings = await Promise.all(Array.from({ length: 20 }, () => bindTestKey(ledger, job)))
    expect(bindings.every((binding) => binding.outcome === 'bound')).toBe(true)
    expect(
      await ledger.sql('SELECT idempotency_key FROM idempotency_keys WHERE idempotency_key = $1', [job.idempotencyKey]),
    ).toHaveLength(1)
  })

  describe('keys bound in batches', () => {
    test('does not wait for longer than a moment for a statement that hangs', async () => {
      const hanging = Promise.withResolvers<void>()
      let isFirst = true
      const query = async (statement: PreparedStatement) => {
        if (isFirst) {
          isFirst = false
          await hanging.promise
        }
        return await ledger.pool.query(statement as pg.QueryConfig)
      }
      const store = createAcceptanceStore(Object.assign(Object.create(ledger.pool) as Pool, { query }), TEST_LIMITS)
      const first = bind(store, newTestJob())
      const second = bind(store, newTestJob())
      await new Promise((resolve) => setImmediate(() => setImmediate(resolve)))
      const later = bind(store, newTestJob())
      const outcome = await withDeadline(5000, later, () => null)
      hanging.resolve()
      expect(outcome).toMatchObject({ outcome: 'bound' })
      expect(await Promise.all([first, second])).toMatchObject([{ outcome: 'bound' }, { outcome: 'bound' }])
    })

    test('binds simultaneous keys in few statements of bounded size, each to its own request and price', async () => {
      const jobs = Array.from({ length: 600 }, (_, index) => {
        const job = newTestJob()
        return { ...job, quote: { ...job.quote, quotedMaximum: atomicAmount(BigInt(index)) } }
      })
      const bindings = await Promise.all(jobs.map((job) => bind(ledger.acceptance, job)))
      expect(bindings).toEqual(
        jobs.map(({ quote }) => ({ outcome: 'bound', quote, expiresAt: expect.any(Date) as unknown })),
      )
      // Rows inserted by one statement have the same transaction id.
      const stored = await ledger.sql<{
        key: string
        digest: string
        maximum: string
        transaction: string
        terms: unknown
      }>(
        `SELECT idempotency_key AS key, request_digest AS digest, quoted_maximum::text AS maximum, terms, xmin::text AS transaction
       FROM idempotency_keys WHERE idempotency_key = ANY($1)`,
        [jobs.map(({ idempotencyKey }) => idempotencyKey)],
      )
      const rowOf = new Map(stored.map((row) => [row.key, row]))
      for (const { idempotencyKey, requestDigest, quote } of jobs)
        expect(rowOf.get(idempotencyKey)).toMatchObject({
          digest: requestDigest,
          maximum: quote.quotedMaximum.toString(),
          terms: quote.terms,
        })
      const sizes = [...Map.groupBy(stored, ({ transaction }) => transaction).values()].map((rows) => rows.length)
      expect(sizes.length).toBeLessThan(10)
      expect(Math.max(...sizes)).toBeLessThanOrEqual(250)
    })

    test('binds each key to exactly one request when two stores bind the same keys concurrently', async () => {
      const pool = createPool({
        connectionString: ledger.url,
        maximumConnections: 8,
        applicationName: 'farebox ledger test',
        onError: () => undefined,
      })
      try {
        const stores = [ledger.acceptance, createAcceptanceStore(pool, TEST_LIMITS)]
        const keys = Array.from({ length: 30 }, () => randomUUID())
        // Opposite orders, in which unordered statements would deadlock.
        const asked = stores.flatMap((store, which) =>
          [0, 1, 2].flatMap((round) =>
            (which === 0 ? keys : keys.toReversed()).map((idempotencyKey) => {
              const requestDigest = `${which}${round}`.padStart(64, '0')
              return { store, job: newTestJob({ idempotencyKey, requestDigest }) }
            }),
          ),
        )
        const bindings = await Promise.all(
          asked.map(async ({ store, job }) => ({ job, binding: await bind(store, job) })),
        )
        const bound = bindings.filter(({ binding }) => binding.outcome === 'bound')
        expect(bound.map(({ job }) => job.idempotencyKey).toSorted()).toEqual(keys.toSorted())
        const stored = await ledger.sql<{ key: string; digest: string }>(
          'SELECT idempotency_key AS key, request_digest AS digest FROM idempotency_keys WHERE idempotency_key = ANY($1)',
          [keys],
        )
        expect(new Map(stored.map(({ key, digest }) => [key, digest]))).toEqual(
          new Map(bound.map(({ job }) => [job.idempotencyKey, job.requestDigest])),
        )
      } finally {
        await pool.end()
      }
    })

    test('does not delay other keys when one key’s row is locked', async () => {
      const locked = newTestJob()
      await bindTestKey(ledger, locked)
      const client = await ledger.pool.connect()
      let waiting: Promise<KeyBinding>
      try {
        await client.query('BEGIN')
        await client.query('SELECT 1 FROM idempotency_keys WHERE idempotency_key = $1 FOR UPDATE', [
          locked.idempotencyKey,
        ])
        waiting = bindTestKey(ledger, locked)
        const others = [0, 1, 2].map(() => bindTestKey(ledger, newTestJob()))
        const first = await Promise.race([waiting.then(() => 'locked'), Promise.all(others).then(() => 'others')])
        expect(first).toBe('others')
        await expect(bindTestKey(ledger, newTestJob())).resolves.toMatchObject({ outcome: 'bound' })
      } finally {
        await client.query('ROLLBACK')
        client.release()
      }
      await expect(waiting).resolves.toMatchObject({ outcome: 'bound', quote: locked.quote })
    })

    test('rejects all keys of a failed statement and binds the next ones', async () => {
      const unfit = newTestJob({ requestDigest: 'too short' })
      const failed = await Promise.allSettled([newTestJob(), unfit].map((job) => bindTestKey(ledger, job)))
      expect(failed.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
      await expect(bindTestKey(ledger, newTestJob())).resolves.toMatchObject({ outcome: 'bound' })
    })
  })
})

describe('what still needs a settlement key', () => {
  let ledger: TestLedger
  beforeEach(async () => {
    ledger = await createTestLedger()
  })

  afterEach(() => ledger.close())

  it('counts unfinished calls by the key that their payment names, and transactions until they are final', async () => {
    const { facilitator } = testAuthorization()
    await jobInState(ledger, 'accepted')
    await jobInState(ledger, 'generated')
    await jobInState(ledger, 'failed')
    expect(await readKeyUse(ledger.pool)).toEqual([{ facilitator, jobs: 2, transactions: 0 }])
    await jobInState(ledger, 'settling')
    await jobInState(ledger, 'completed')
    expect(await readKeyUse(ledger.pool)).toEqual([{ facilitator, jobs: 3, transactions: 2 }])
    await ledger.sql("UPDATE settlements SET finalized_at = now() WHERE state = 'confirmed'")
    expect(await readKeyUse(ledger.pool)).toEqual([{ facilitator, jobs: 3, transactions: 1 }])
  })

  it('counts a payment for the settlement contract by that, and its transactions by each key that sent one', async () => {
    const [first, second] = [newTestBatch(), newTestBatch()]
    const [moved] = await settlingBatch(ledger, 2, first)
    if (!moved) throw new Error('a job')
    await ledger.settlement.renewBatch([renewalOf(moved.job, moved.settlement)], second)
    const use = new Map((await readKeyUse(ledger.pool)).map((needed) => [needed.facilitator, needed]))
    expect(use.get(TEST_CONTRACT)).toMatchObject({ jobs: 2 })
    expect(use.get(first.account.facilitator)).toMatchObject({ transactions: 2 })
    expect(use.get(second.account.facilitator)).toMatchObject({ transactions: 1 })
  })

  it('is a metric of every worker while calls need a key that no settler has', async () => {
    const registry = new Registry()
    const processReports = createProcessReportStore(ledger.pool)
    addKeyMetrics(registry, { reportsStore: ledger.reports, processReports })
    const settler = async (keys: readonly string[]) =>
      await processReports.writeReport(
        { instance: 'settler', kind: 'worker', startedAt: new Date() },
        { version: '1', configurationRevision: '1', keys: { SETTLEMENT_PRIVATE_KEYS: keys } },
      )
    const read = async () => /^farebox_key_problems (\d+)$/m.exec(await registry.metrics())?.[1]
    await jobInState(ledger, 'accepted')
    await settler(['0xanother'])
    expect(await read()).toBe('1')
    await settler([testAuthorization().facilitator, '0xanother'])
    expect(await read()).toBe('0')
  })
})
