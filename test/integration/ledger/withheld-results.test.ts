import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readSettlementGas } from '#shared/adapters/postgres/reports/settlement-gas.ts'
import { sha256Hex } from '#shared/digests/canonical-json.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import { bindTestKey, claimTestJob, completionOf, fencedWrites, jobInState } from '../../support/ledger/job-in-state.ts'
import { newTestJob, paidAgain, type TestJob } from '../../support/ledger/new-test-job.ts'
import { testAuthorization } from '../../support/ledger/test-authorization.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'

const DAY_MS = 24 * 3600 * 1000

let ledger: TestLedger
beforeAll(async () => {
  ledger = await createTestLedger()
})
afterAll(() => ledger.close())

/** Runs the job with media that expire at `mediaExpireAt`, and fails its settlement. */
async function doUnpaidWork(jobId: string, mediaExpireAt: Date): Promise<void> {
  const job = await claimTestJob(ledger, jobId)
  const { attemptId } = await ledger.execution.startAttempt(job, 'elevenlabs', null)
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
    const first = await ledger.admission.acceptJob(request)
    if (first.outcome !== 'accepted') throw new Error(first.outcome)
    await doUnpaidWork(first.jobId, new Date(Date.now() - 1000))
    expect(await ledger.admission.acceptJob(paidAgain(request))).toEqual(first)
    await doUnpaidWork(first.jobId, new Date(Date.now() + DAY_MS))
    expect(await ledger.admission.acceptJob(paidAgain(request))).toEqual({
      outcome: 'settles_again',
      jobId: first.jobId,
    })
  })
})

/** What a reverted settlement cost: 196,006 gas at 5 gwei, in USDC. */
const GAS = { gasUsed: 196_006n, effectiveGasPrice: 5_000_000_000n, cost: atomicAmount(3_920_120n) }

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
    expect(await ledger.admission.acceptJob(paidAgain(request))).toMatchObject({ outcome: 'settles_again' })
    for (const pause of [60, 120, 240, 480, 960, 1920, 3600, 3600]) {
      await revert(jobId)
      const refused = paidAgain(request)
      const before = await ledger.fingerprint()
      const acceptance = await ledger.admission.acceptJob(refused)
      expect(acceptance).toEqual({ outcome: 'settlement_retry_limit', retryAfterSeconds: expect.any(Number) })
      const { retryAfterSeconds } = acceptance as { retryAfterSeconds: number }
      expect(retryAfterSeconds).toBeLessThanOrEqual(pause)
      expect(retryAfterSeconds).toBeGreaterThan(pause / 2)
      // The refused authorization is not claimed, so the same one pays later.
      expect(await ledger.fingerprint()).toBe(before)
      await ageReverts(payer, pause)
      expect(await ledger.admission.acceptJob(refused)).toEqual({ outcome: 'settles_again', jobId })
    }
  })

  it('allows a payment for a withheld result without a pause a day after its reverts', async () => {
    const [job] = await generatedJobs(1)
    if (!job) throw new Error('no job')
    for (let count = 0; count < 6; count += 1) {
      await revert(job.jobId)
      await ageReverts(job.request.authorization.payer, 3600)
      expect(await ledger.admission.acceptJob(paidAgain(job.request))).toMatchObject({ outcome: 'settles_again' })
    }
    await revert(job.jobId)
    expect(await ledger.admission.acceptJob(paidAgain(job.request))).toMatchObject({
      outcome: 'settlement_retry_limit',
    })
    await ageReverts(job.request.authorization.payer, 86_400)
    expect(await ledger.admission.acceptJob(paidAgain(job.request))).toMatchObject({ outcome: 'settles_again' })
  })

  it('allows a payment for a withheld result without a pause when its settlements failed without using gas', async () => {
    const [job] = await generatedJobs(1)
    if (!job) throw new Error('no job')
    for (let count = 0; count < 6; count += 1) {
      await revert(job.jobId, null)
      expect(await ledger.admission.acceptJob(paidAgain(job.request))).toMatchObject({ outcome: 'settles_again' })
    }
  })

  it('delays the next payment for a withheld result by reverts of the payer’s other jobs, then by their open settlements', async () => {
    const jobs = await generatedJobs(4)
    for (const { jobId } of jobs) await revert(jobId)
    const [first, second] = jobs
    if (!first || !second) throw new Error('no jobs')
    const limited = { outcome: 'settlement_retry_limit' }
    expect(await ledger.admission.acceptJob(paidAgain(first.request))).toMatchObject(limited)
    await ageReverts(first.request.authorization.payer, 60)
    const [one, other] = await Promise.all([
      ledger.admission.acceptJob(paidAgain(first.request)),
      ledger.admission.acceptJob(paidAgain(second.request)),
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
