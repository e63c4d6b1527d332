import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { acceptTestJob, claimTestJob, jobInState } from '../../support/ledger/job-in-state.ts'
import { newTestJob } from '../../support/ledger/new-test-job.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'

const OPERATION = 'createTranscription'

let ledger: TestLedger
beforeAll(async () => {
  ledger = await createTestLedger()
})
beforeEach(() => ledger.sql("UPDATE jobs SET run_after = now() + interval '1 day'"))
afterAll(() => ledger.close())

const waitingSince = (jobId: string, seconds: number) =>
  ledger.sql('UPDATE jobs SET run_after = now() - make_interval(secs => $2) WHERE id = $1', [jobId, seconds])

describe('the age of a queue', () => {
  it('returns no age for an empty queue', async () => {
    expect(await ledger.admission.readQueueAges()).toEqual(new Map())
  })
  it('returns the age of the oldest waiting job', async () => {
    await waitingSince(await acceptTestJob(ledger), 5)
    await waitingSince(await acceptTestJob(ledger), 100)
    const age = (await ledger.admission.readQueueAges()).get(OPERATION)
    expect(age).toBeGreaterThanOrEqual(100_000)
    expect(age).toBeLessThan(160_000)
  })
  it('includes a job that a worker has leased and not sent to a provider', async () => {
    const leased = await acceptTestJob(ledger)
    await waitingSince(leased, 100)
    await claimTestJob(ledger, leased)
    expect((await ledger.admission.readQueueAges()).get(OPERATION)).toBeGreaterThanOrEqual(100_000)
  })
  it('ignores deferred jobs even when due, and jobs past acceptance', async () => {
    await acceptTestJob(ledger).then((deferred) => waitingSince(deferred, -100))
    const deferredAndDue = await acceptTestJob(ledger)
    await ledger.execution.deferJob(await claimTestJob(ledger, deferredAndDue), 0)
    await waitingSince(deferredAndDue, 100)
    const { id: generated } = await jobInState(ledger, 'generated')
    await ledger.sql('UPDATE jobs SET lease_expires_at = NULL WHERE id = $1', [generated])
    await waitingSince(generated, 100)
    expect(await ledger.admission.readQueueAges()).toEqual(new Map())
  })
})

describe('whether a key has a job', () => {
  it('hasJob is true for a key with an accepted job and false for one with a failed job', async () => {
    const job = newTestJob()
    expect(await ledger.admission.hasJob(job.idempotencyKey)).toBe(false)
    await acceptTestJob(ledger, job)
    expect(await ledger.admission.hasJob(job.idempotencyKey)).toBe(true)
    const failed = newTestJob()
    await jobInState(ledger, 'failed', failed)
    expect(await ledger.admission.hasJob(failed.idempotencyKey)).toBe(false)
  })
})
