import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { sha256Hex } from '#shared/digests/canonical-json.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import { bindTestKey, claimTestJob, fencedWrites } from '../../support/ledger/job-in-state.ts'
import { newTestJob, paidAgain } from '../../support/ledger/new-test-job.ts'
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
