import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import {
  acceptTestJob,
  claimTestJob,
  createTestLedger,
  jobInState,
  newTestJob,
  type TestLedger,
} from '../../support/ledger/test-ledger.ts'

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
  it('is unknown to an empty one', async () => {
    expect(await ledger.admission.readQueueAges()).toEqual(new Map())
  })
  it('is that of the oldest job that waits', async () => {
    await waitingSince(await acceptTestJob(ledger), 5)
    await waitingSince(await acceptTestJob(ledger), 100)
    const age = (await ledger.admission.readQueueAges()).get(OPERATION)
    expect(age).toBeGreaterThanOrEqual(100_000)
    expect(age).toBeLessThan(160_000)
  })
  it('is not that of a job that a worker holds, that is put off, or that is past the queue', async () => {
    const held = await acceptTestJob(ledger)
    await waitingSince(held, 100)
    await claimTestJob(ledger, held)
    await acceptTestJob(ledger).then((putOff) => waitingSince(putOff, -100))
    const { id: generated } = await jobInState(ledger, 'generated')
    await ledger.sql('UPDATE jobs SET lease_expires_at = NULL WHERE id = $1', [generated])
    await waitingSince(generated, 100)
    expect(await ledger.admission.readQueueAges()).toEqual(new Map())
  })
})

describe('a key has a job that makes no new work', () => {
  it('once it was accepted, and not when it was in vain', async () => {
    const job = newTestJob()
    expect(await ledger.admission.hasJob(job.idempotencyKey)).toBe(false)
    await acceptTestJob(ledger, job)
    expect(await ledger.admission.hasJob(job.idempotencyKey)).toBe(true)
    const failed = newTestJob()
    await jobInState(ledger, 'failed', failed)
    expect(await ledger.admission.hasJob(failed.idempotencyKey)).toBe(false)
  })
})
