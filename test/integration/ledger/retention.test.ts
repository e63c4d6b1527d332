import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { sha256Hex } from '#shared/digests/canonical-json.ts'
import { JOB_STATES } from '#shared/jobs/job.ts'
import {
  createInspectionStore,
  type DecodeVerdict,
  type InspectionStore,
} from '#shared/ledger/acceptance/inspection-store.ts'
import { readSettlementGas } from '#shared/ledger/reports/settlement-gas.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import type { Decoded } from '../../../api/request/audio/decode-with-ffmpeg.ts'
import { createMp3Inspector, type InspectionOutcome } from '../../../api/request/audio/inspect-mp3.ts'
import { createInspectionCache } from '../../../api/request/audio/inspection-cache.ts'
import { createSharedVerdicts } from '../../../api/request/audio/shared-verdicts.ts'
import { measureAudio } from '../../../api/request/measure-audio.ts'
import {
  acceptTestJob,
  bindTestKey,
  called,
  claimTestJob,
  completionOf,
  fencedWrites,
  jobInState,
} from '../../support/ledger/job-in-state.ts'
import { EFFECTIVE_REQUEST, newTestJob, paidAgain, type TestJob } from '../../support/ledger/new-test-job.ts'
import { testAuthorization } from '../../support/ledger/test-authorization.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'
import { generatedDurationMs, generateMp3 } from '../../support/media/mp3-generator.ts'
import { PATIENCE_MS } from '../../support/patience.ts'

const DAY_MS = 24 * 3600 * 1000
/** What a reverted settlement cost: 196,006 gas at 5 gwei, in USDC. */
const GAS = { gasUsed: 196_006n, effectiveGasPrice: 5_000_000_000n, cost: atomicAmount(3_920_120n) }
const LIFETIME_SECONDS = 300
const AGREES: Decoded = { outcome: 'agrees', decodedSamples: 1 }
const DISAGREES: Decoded = { outcome: 'disagrees', decodedSamples: 4_410_000, stopped: true }
const LIMITS = { maximumBytes: 26_214_400, minimumDurationMs: 100, maximumDurationMs: 3_600_000 }
const CLIP_MS = generatedDurationMs({ durationMs: 500 })

describe('retention of what was delivered', () => {
  let ledger: TestLedger
  beforeAll(async () => {
    ledger = await createTestLedger()
  })

  afterAll(() => ledger.close())

  async function age(jobId: string, interval: string): Promise<void> {
    await ledger.sql('UPDATE jobs SET finished_at = finished_at - $2::interval WHERE id = $1', [jobId, interval])
  }
  async function storedText(jobId: string) {
    const [row] = await ledger.sql<{ effective_request: string | null; result_body: string | null }>(
      'SELECT effective_request, result_body FROM jobs WHERE id = $1',
      [jobId],
    )
    return row
  }
  async function isStored(idempotencyKey: string): Promise<boolean> {
    const rows = await ledger.sql('SELECT 1 FROM idempotency_keys WHERE idempotency_key = $1', [idempotencyKey])
    return rows.length > 0
  }
  describe('the text of a request', () => {
    it.each(JOB_STATES)('stores the request of a %s job only while a provider may need it', async (state) => {
      const { id } = await jobInState(ledger, state)
      expect((await storedText(id))?.effective_request !== null).toBe(state === 'accepted' || state === 'generating')
    })

    it('stores the request again when a failed job is paid for again', async () => {
      const request = newTestJob()
      const { id } = await jobInState(ledger, 'failed', request)
      expect(await ledger.acceptance.acceptPayment(paidAgain(request))).toMatchObject({
        outcome: 'accepted',
        jobId: id,
      })
      expect((await ledger.execution.leaseJob(id, 60_000))?.effectiveRequest).toEqual(EFFECTIVE_REQUEST)
    })
  })

  describe('a result', () => {
    it('erases a result after its retention, not before, and keeps its receipt', async () => {
      const { id } = await jobInState(ledger, 'completed')
      await age(id, '6 days 23 hours')
      await ledger.retention.expireResults(7 * DAY_MS, 100)
      const kept = (await ledger.acceptance.readOutcomes([id])).get(id)
      if (kept instanceof Error || kept?.state !== 'completed') throw new Error('not completed')
      await age(id, '2 hours')
      expect(await ledger.retention.expireResults(7 * DAY_MS, 100)).toBe(1)
      expect((await storedText(id))?.result_body).toBeNull()
      const { receiptId } = kept
      expect((await ledger.acceptance.readOutcomes([id])).get(id)).toEqual({ state: 'expired', receiptId })
      expect(await ledger.acceptance.findReceipt(receiptId)).toMatchObject({ id: receiptId })
    })

    it('erases a withheld result as well; a later payment then runs the job again', async () => {
      const request = newTestJob()
      const { id } = await jobInState(ledger, 'settlement_failed', request)
      await age(id, '8 days')
      expect(await ledger.retention.expireResults(7 * DAY_MS, 100)).toBe(1)
      expect(await ledger.acceptance.acceptPayment(paidAgain(request))).toEqual({ outcome: 'accepted', jobId: id })
    })

    it('records a debt for a withheld result until it is erased', async () => {
      const request = newTestJob()
      const { id } = await jobInState(ledger, 'settlement_failed', request)
      const { payer } = request.authorization
      const other = newTestJob({ authorization: testAuthorization({ payer }) })
      await bindTestKey(ledger, other)
      expect(await ledger.acceptance.acceptPayment(other)).toMatchObject({ outcome: 'unpaid_debt' })
      await age(id, '8 days')
      await ledger.retention.expireResults(7 * DAY_MS, 100)
      expect(await ledger.acceptance.acceptPayment(other)).toMatchObject({ outcome: 'accepted' })
    })

    it.each(['generated', 'settling', 'review'] as const)('never erases the result of a %s job', async (state) => {
      const { id } = await jobInState(ledger, state)
      await ledger.sql("UPDATE jobs SET finished_at = now() - interval '100 days' WHERE id = $1", [id])
      await ledger.retention.expireResults(7 * DAY_MS, 100)
      expect((await storedText(id))?.result_body).not.toBeNull()
    })
  })

  describe('a key that was challenged', () => {
    it('deletes an unpaid key minutes after its challenge expired, so that free requests cannot pile up', async () => {
      const [old, fresh] = [newTestJob(), newTestJob()]
      await bindTestKey(ledger, old)
      await bindTestKey(ledger, fresh)
      const age = 'UPDATE idempotency_keys SET expires_at = now() - $2::interval WHERE idempotency_key = $1'
      await ledger.sql(age, [old.idempotencyKey, '3 minutes'])
      await ledger.sql(age, [fresh.idempotencyKey, '1 minute'])
      expect(await ledger.retention.forgetExpiredChallenges(100)).toBe(1)
      expect([await isStored(old.idempotencyKey), await isStored(fresh.idempotencyKey)]).toEqual([false, true])
    })

    it('keeps a key with a job permanently', async () => {
      const request = newTestJob()
      await acceptTestJob(ledger, request)
      const aged = "UPDATE idempotency_keys SET expires_at = now() - interval '1 year' WHERE idempotency_key = $1"
      await ledger.sql(aged, [request.idempotencyKey])
      await ledger.retention.forgetExpiredChallenges(100)
      expect(await isStored(request.idempotencyKey)).toBe(true)
    })
  })

  it('rejects truncating the receipts', async () => {
    await expect(ledger.sql('TRUNCATE receipts CASCADE')).rejects.toThrow('receipts are immutable')
  })
})

describe('results that were withheld', () => {
  let ledger: TestLedger
  beforeAll(async () => {
    ledger = await createTestLedger()
  })

  afterAll(() => ledger.close())

  /** Runs the job with media that expire at `mediaExpireAt`, and fails its settlement. */
  async function doUnpaidWork(jobId: string, mediaExpireAt: Date): Promise<void> {
    const job = await claimTestJob(ledger, jobId)
    const { attemptId } = await ledger.execution.startAttempt(job, called('elevenlabs'), null)
    const resultBody = JSON.stringify({ attemptId })
    const sealed = {
      usage: { images: 1 },
      chargeAmount: atomicAmount(5034n),
      resultBody,
      resultDigest: sha256Hex(resultBody),
    }
    const media = {
      objectKey: `media/${attemptId}`,
      tokenSha256: randomBytes(32).toString('hex'),
      contentType: 'image/png',
      sha256: sha256Hex(attemptId),
      bytes: 3,
      expiresAt: mediaExpireAt,
    }
    await ledger.execution.sealResult(job, attemptId, sealed, media)
    await fencedWrites.failSettlement.run(ledger, job)
  }
  describe('a withheld result whose first media expired before it was paid for', () => {
    it('runs the job again once, and lets the new result be paid for without another provider call', async () => {
      const request = newTestJob()
      await bindTestKey(ledger, request)
      const first = await ledger.acceptance.acceptPayment(request)
      if (first.outcome !== 'accepted') throw new Error(first.outcome)
      await doUnpaidWork(first.jobId, new Date(Date.now() - 1000))
      expect(await ledger.acceptance.acceptPayment(paidAgain(request))).toEqual(first)
      await doUnpaidWork(first.jobId, new Date(Date.now() + DAY_MS))
      expect(await ledger.acceptance.acceptPayment(paidAgain(request))).toEqual({
        outcome: 'settles_again',
        jobId: first.jobId,
      })
    })
  })

  /** Settles a `generated` job on chain, where it reverts. */
  async function revert(jobId: string, gas: typeof GAS | null = GAS): Promise<void> {
    const job = await claimTestJob(ledger, jobId)
    await fencedWrites.recordSettlement.run(ledger, job)
    await ledger.settlement.failSettlement(job, { code: 'settlement_failed', reason: 'reverted in block 7', gas })
  }
  /** Creates jobs of one payer, all of whose results exist. */
  async function generatedJobs(count: number): Promise<{ request: TestJob; jobId: string }[]> {
    const first = newTestJob()
    const jobs: { request: TestJob; jobId: string }[] = []
    for (let index = 0; index < count; index += 1) {
      const authorization = testAuthorization({ payer: first.authorization.payer })
      const { id: jobId } = await jobInState(ledger, 'generated', newTestJob({ authorization }))
      const [row] = await ledger.sql<{ key: string; digest: string }>(
        'SELECT idempotency_key AS key, request_digest AS digest FROM jobs WHERE id = $1',
        [jobId],
      )
      if (!row) throw new Error(`no job ${jobId}`)
      await ledger.sql('UPDATE jobs SET lease_expires_at = NULL WHERE id = $1', [jobId])
      jobs.push({ jobId, request: newTestJob({ idempotencyKey: row.key, requestDigest: row.digest, authorization }) })
    }
    return jobs
  }
  /** Ages the reverts of a payer in the ledger, instead of waiting. */
  async function ageReverts(payer: string, seconds: number): Promise<void> {
    await ledger.sql('UPDATE settlements SET finished_at = finished_at - make_interval(secs => $2) WHERE payer = $1', [
      payer,
      seconds,
    ])
  }
  describe('a withheld result whose settlements reverted', () => {
    it('allows the next payment for a withheld result after pauses that double from the second revert, up to an hour', async () => {
      const [job] = await generatedJobs(1)
      if (!job) throw new Error('no job')
      const { request, jobId } = job
      const { payer } = request.authorization
      await revert(jobId)
      expect(await ledger.acceptance.acceptPayment(paidAgain(request))).toMatchObject({ outcome: 'settles_again' })
      for (const pause of [60, 120, 240, 480, 960, 1920, 3600, 3600]) {
        await revert(jobId)
        const refused = paidAgain(request)
        const before = await ledger.fingerprint()
        const acceptance = await ledger.acceptance.acceptPayment(refused)
        expect(acceptance).toEqual({ outcome: 'settlement_retry_limit', retryAfterSeconds: expect.any(Number) })
        const { retryAfterSeconds } = acceptance as { retryAfterSeconds: number }
        expect(retryAfterSeconds).toBeLessThanOrEqual(pause)
        expect(retryAfterSeconds).toBeGreaterThan(pause / 2)
        // The refused authorization is not claimed, so the same one pays later.
        expect(await ledger.fingerprint()).toBe(before)
        await ageReverts(payer, pause)
        expect(await ledger.acceptance.acceptPayment(refused)).toEqual({ outcome: 'settles_again', jobId })
      }
    })

    it('allows a payment for a withheld result without a pause a day after its reverts', async () => {
      const [job] = await generatedJobs(1)
      if (!job) throw new Error('no job')
      for (let count = 0; count < 6; count += 1) {
        await revert(job.jobId)
        await ageReverts(job.request.authorization.payer, 3600)
        expect(await ledger.acceptance.acceptPayment(paidAgain(job.request))).toMatchObject({
          outcome: 'settles_again',
        })
      }
      await revert(job.jobId)
      expect(await ledger.acceptance.acceptPayment(paidAgain(job.request))).toMatchObject({
        outcome: 'settlement_retry_limit',
      })
      await ageReverts(job.request.authorization.payer, 86_400)
      expect(await ledger.acceptance.acceptPayment(paidAgain(job.request))).toMatchObject({ outcome: 'settles_again' })
    })

    it('allows a payment for a withheld result without a pause when its settlements failed without using gas', async () => {
      const [job] = await generatedJobs(1)
      if (!job) throw new Error('no job')
      for (let count = 0; count < 6; count += 1) {
        await revert(job.jobId, null)
        expect(await ledger.acceptance.acceptPayment(paidAgain(job.request))).toMatchObject({
          outcome: 'settles_again',
        })
      }
    })

    it('delays the next payment for a withheld result by reverts of the payer’s other jobs, then by their open settlements', async () => {
      const jobs = await generatedJobs(4)
      for (const { jobId } of jobs) await revert(jobId)
      const [first, second] = jobs
      if (!first || !second) throw new Error('no jobs')
      const limited = { outcome: 'settlement_retry_limit' }
      expect(await ledger.acceptance.acceptPayment(paidAgain(first.request))).toMatchObject(limited)
      await ageReverts(first.request.authorization.payer, 60)
      const [one, other] = await Promise.all([
        ledger.acceptance.acceptPayment(paidAgain(first.request)),
        ledger.acceptance.acceptPayment(paidAgain(second.request)),
      ])
      expect([one.outcome, other.outcome].sort()).toEqual(['settlement_retry_limit', 'settles_again'])
    })

    it('counts its gas as uncharged work of the payer, in the same statement', async () => {
      const [job, failed] = await generatedJobs(2)
      if (!job || !failed) throw new Error('no jobs')
      await revert(job.jobId)
      await revert(failed.jobId, null)
      const { payer } = job.request.authorization
      expect(await ledger.sql('SELECT job_id, kind, amount FROM uncharged_work WHERE payer = $1', [payer])).toEqual([
        { job_id: job.jobId, kind: 'reverted_settlement', amount: '3920120' },
      ])
      expect(
        await ledger.sql(
          `SELECT gas_used, effective_gas_price, gas_cost FROM settlements
         WHERE payer = $1 ORDER BY gas_used NULLS LAST`,
          [payer],
        ),
      ).toEqual([
        { gas_used: '196006', effective_gas_price: '5000000000', gas_cost: '3920120' },
        { gas_used: null, effective_gas_price: null, gas_cost: null },
      ])
    })
  })

  it('the ledger report has the gas of settlements, and how far it exceeds their charges', async () => {
    const separate = await createTestLedger()
    const settling = await jobInState(separate, 'settling')
    await separate.settlement.completeJob(settling, { ...(await completionOf(separate, settling)), gas: GAS })
    await jobInState(separate, 'completed')
    const failing = await jobInState(separate, 'settling')
    await separate.settlement.failSettlement(failing, {
      code: 'settlement_failed',
      reason: 'reverted in block 7',
      gas: GAS,
    })
    const period = { from: '2026-01-01T00:00:00Z', to: '2100-01-01T00:00:00Z' }
    expect(await readSettlementGas(separate.pool, period)).toEqual({
      confirmed: { count: 1, totalAtomic: GAS.cost },
      batched: { count: 0, totalAtomic: 0n },
      batches: 0,
      chargedAtomic: 5034n,
      atLoss: { count: 1, totalAtomic: GAS.cost - 5034n },
      reverted: { count: 1, totalAtomic: GAS.cost },
      revertedBatches: { count: 0, totalAtomic: 0n },
    })
    await separate.close()
  })
})

describe('stored inspections', () => {
  let ledger: TestLedger
  let store: InspectionStore
  beforeAll(async () => {
    ledger = await createTestLedger()
    store = createInspectionStore(ledger.pool)
  })

  afterAll(() => ledger.close())

  interface ApiOptions {
    readonly decoded?: Decoded
    readonly inspector?: string
    readonly store?: InspectionStore
    readonly patienceMs?: number
  }
  /** Creates the inspector of one API process, whose decoder answers as given. */
  function startApi(options: ApiOptions = {}) {
    const failures: string[] = []
    let decodes = 0
    const { inspect } = createMp3Inspector({
      decode: async () => {
        decodes += 1
        return options.decoded ?? AGREES
      },
      cache: createInspectionCache<InspectionOutcome>({ maximumEntries: 100, timeToLiveMs: 60_000 }),
      verdicts: createSharedVerdicts({
        store: options.store ?? store,
        readInspector: async () => options.inspector ?? 'aa'.repeat(32),
        lifetimeSeconds: LIFETIME_SECONDS,
        patienceMs: options.patienceMs ?? PATIENCE_MS,
        onFailure: (error) => failures.push(String(error)),
      }),
      limitDecoding: () => undefined,
      concurrency: 2,
      maximumWaiting: 4,
    })
    return {
      failures,
      decodes: () => decodes,
      inspect: async (audio: Uint8Array) =>
        await inspect(measureAudio(audio), { client: ['192.0.2.1'], hasPriority: true, limits: LIMITS }).then(
          ({ durationMs }) => durationMs,
          (error: Error) => error.message,
        ),
    }
  }
  let clips = 0
  /** Returns an MP3 of half a second that no other test has inspected. */
  function newClip(): Uint8Array {
    clips += 1
    return generateMp3({ durationMs: 500, seed: `${clips}` })
  }
  describe('an upload that another API process has decoded', () => {
    it('is accepted with the same duration and without another decode', async () => {
      const [first, second] = [startApi(), startApi()]
      const audio = newClip()
      expect([await first.inspect(audio), await second.inspect(audio)]).toEqual([CLIP_MS, CLIP_MS])
      expect([first.decodes(), second.decodes()]).toEqual([1, 0])
      expect([...first.failures, ...second.failures]).toEqual([])
    })

    it('is refused with the same message and without another decode', async () => {
      const [first, second] = [startApi({ decoded: DISAGREES }), startApi()]
      const audio = newClip()
      const message = await first.inspect(audio)
      expect(message).toMatch(/but it decodes to more than 100,000 ms/)
      expect(await second.inspect(audio)).toBe(message)
      expect(second.decodes()).toBe(0)
    })

    it('is decoded again by another ffmpeg or by other rules', async () => {
      const [old, next] = [startApi({ decoded: DISAGREES }), startApi({ inspector: 'bb'.repeat(32) })]
      const audio = newClip()
      expect(await old.inspect(audio)).toMatch(/decodes to/)
      expect(await next.inspect(audio)).toBe(CLIP_MS)
      expect(next.decodes()).toBe(1)
    })

    it('is decoded again when the two frame walks differ, so that no process takes a duration from another', async () => {
      const audio = newClip()
      const { sha256 } = measureAudio(audio)
      await store.recordVerdict({ sha256, inspector: 'aa'.repeat(32), durationMs: CLIP_MS + 1 }, { refusal: null }, 60)
      const api = startApi()
      expect(await api.inspect(audio)).toBe(CLIP_MS)
      expect(api.decodes()).toBe(1)
    })

    it('is decoded again once the verdict has expired, which is then replaced', async () => {
      const audio = newClip()
      await startApi({ decoded: DISAGREES }).inspect(audio)
      await ledger.sql('UPDATE audio_inspections SET expires_at = now()')
      expect(await startApi().inspect(audio)).toBe(CLIP_MS)
      const third = startApi()
      expect(await third.inspect(audio)).toBe(CLIP_MS)
      expect(third.decodes()).toBe(0)
    })

    it('keeps the first of two verdicts, so that processes that decoded at the same time agree afterwards', async () => {
      const audio = { sha256: randomBytes(32).toString('hex'), inspector: 'aa'.repeat(32), durationMs: 1 }
      await store.recordVerdict(audio, { refusal: 'first' }, 60)
      await store.recordVerdict(audio, { refusal: null }, 60)
      expect(await store.findVerdict(audio)).toEqual({ refusal: 'first' })
    })

    it('is decoded again when the decoder only crashed elsewhere', async () => {
      const audio = newClip()
      expect(await startApi({ decoded: { outcome: 'undecodable', reason: 'killed' } }).inspect(audio)).toMatch(/fails/)
      expect(await startApi().inspect(audio)).toBe(CLIP_MS)
    })
  })

  describe('the store of verdicts', () => {
    const failing: InspectionStore = {
      findVerdict: () => Promise.reject<DecodeVerdict>(new Error('no connection')),
      recordVerdict: () => Promise.reject(new Error('no connection')),
    }
    const hanging: InspectionStore = {
      findVerdict: () => new Promise<never>(() => undefined),
      recordVerdict: () => new Promise<never>(() => undefined),
    }

    it.each([
      { name: 'fails', store: failing, patienceMs: PATIENCE_MS, failure: /no connection/ },
      { name: 'hangs', store: hanging, patienceMs: 1, failure: /did not answer within 1 ms/ },
    ])('fails no inspection when it $name: the upload is decoded', async ({ failure, ...options }) => {
      const api = startApi(options)
      expect(await api.inspect(newClip())).toBe(CLIP_MS)
      expect(api.decodes()).toBe(1)
      expect(api.failures).toEqual([expect.stringMatching(failure), expect.stringMatching(failure)])
    })

    it('holds a row only for what was decoded, of a few hundred bytes, until the sweeper deletes it', async () => {
      await ledger.sql('DELETE FROM audio_inspections')
      const api = startApi({ decoded: DISAGREES })
      for (let index = 0; index < 20; index++) await api.inspect(newClip())
      await api.inspect(new TextEncoder().encode('fLaC and so on'))
      const [stored] = await ledger.sql<{ rows: number; longest: number; least: number; most: number }>(
        `SELECT count(*)::int AS rows, max(pg_column_size(audio_inspections))::int AS longest,
         extract(epoch FROM min(expires_at) - now())::int AS least, extract(epoch FROM max(expires_at) - now())::int AS most
       FROM audio_inspections`,
      )
      expect(stored).toMatchObject({ rows: 20 })
      expect(stored?.longest).toBeLessThan(700)
      expect(stored?.least).toBeGreaterThan(0)
      expect(stored?.most).toBeLessThanOrEqual(LIFETIME_SECONDS)
      expect(await ledger.retention.forgetInspections(100)).toBe(0)
      await ledger.sql('UPDATE audio_inspections SET expires_at = now()')
      expect([await ledger.retention.forgetInspections(15), await ledger.retention.forgetInspections(15)]).toEqual([
        15, 5,
      ])
    })
  })
})
