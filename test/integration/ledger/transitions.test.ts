import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { JOB_STATES, type JobState } from '#shared/jobs/job.ts'
import { isUnfinished, mayMove } from '#shared/jobs/transitions.ts'
import {
  acceptTestJob,
  claimTestJob,
  completionOf,
  type FencedWrite,
  fencedWrites,
  jobInState,
  storedState,
} from '../../support/ledger/job-in-state.ts'
import { newTestJob } from '../../support/ledger/new-test-job.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'

let ledger: TestLedger
beforeAll(async () => {
  ledger = await createTestLedger()
})
afterAll(() => ledger.close())

const writes = Object.keys(fencedWrites) as FencedWrite[]

/** Returns whether a worker may make a move: only of unfinished jobs, while a payment may reopen finished ones. */
function workerMayMove(from: JobState, write: FencedWrite): boolean {
  return isUnfinished(from) && mayMove(from, fencedWrites[write].to)
}

describe.each(JOB_STATES)('a %s job', (from) => {
  it.each(writes)('allows %s exactly when the transition table does, and only under the job’s fence', async (write) => {
    const job = await jobInState(ledger, from)
    const before = await ledger.fingerprint()
    expect(await fencedWrites[write].run(ledger, { ...job, fence: job.fence - 1n })).toBe('stale')
    expect(await fencedWrites[write].run(ledger, { ...job, fence: job.fence + 1n })).toBe('stale')
    expect(await ledger.fingerprint()).toBe(before)

    const allowed = workerMayMove(from, write)
    expect(await fencedWrites[write].run(ledger, job)).toBe(allowed ? 'written' : 'stale')
    expect((await storedState(ledger, job.id)).state).toBe(allowed ? fencedWrites[write].to : from)
    expect((await ledger.fingerprint()) === before).toBe(!allowed)
  })
})

describe('a claim', () => {
  it('assigns a job to exactly one of twenty simultaneous claims', async () => {
    const jobId = await acceptTestJob(ledger)
    const claims = await Promise.all(Array.from({ length: 20 }, () => ledger.execution.claimJob(jobId, 60_000)))
    expect(claims.filter((claim) => claim !== null)).toHaveLength(1)
    expect(await storedState(ledger, jobId)).toEqual({ state: 'accepted', fence: '1' })
  })

  it.each(JOB_STATES)('allows a claim of a %s job only if it is unfinished', async (state) => {
    const { id } = await jobInState(ledger, state)
    await expireLease(id)
    const claim = await ledger.execution.claimJob(id, 60_000)
    expect(claim?.state ?? null).toBe(isUnfinished(state) ? state : null)
  })

  it('refuses a claim during a provider call’s grace period after its lease expired', async () => {
    const late = await jobInState(ledger, 'generating')
    await ledger.sql("UPDATE jobs SET lease_expires_at = now() - interval '1 hour' WHERE id = $1", [late.id])
    expect(await ledger.execution.claimJob(late.id, 60_000)).toBeNull()
    expect(await ledger.execution.claimJob(late.id, 60_000)).toBeNull()
    expect(await fencedWrites.sealResult.run(ledger, late)).toBe('written')
  })

  it('allows a claim of a provider call after its grace period', async () => {
    const late = await jobInState(ledger, 'generating')
    await ledger.sql("UPDATE jobs SET lease_expires_at = now() - interval '1 hour' WHERE id = $1", [late.id])
    expect(await ledger.execution.claimJob(late.id, 60)).toBeNull()
    await expect.poll(() => ledger.execution.claimJob(late.id, 60_000)).not.toBeNull()
    expect(await fencedWrites.sealResult.run(ledger, late)).toBe('stale')
  })

  it('starts a new grace period after the worker of a provider call renewed its lease', async () => {
    const job = await jobInState(ledger, 'generating')
    await ledger.sql("UPDATE jobs SET lease_expires_at = now() - interval '1 hour' WHERE id = $1", [job.id])
    expect(await ledger.execution.claimJob(job.id, 60_000)).toBeNull()
    expect(await ledger.execution.renewLeases([job], 60_000)).toEqual(new Set())
    await ledger.sql("UPDATE jobs SET lease_expires_at = now() - interval '1 hour' WHERE id = $1", [job.id])
    expect(await ledger.execution.claimJob(job.id, 60_000)).toBeNull()
  })

  it('refuses a claim until the lease has expired, then raises the fence', async () => {
    const jobId = await acceptTestJob(ledger)
    const first = await claimTestJob(ledger, jobId)
    expect(await ledger.execution.claimJob(jobId, 60_000)).toBeNull()
    await expireLease(jobId)
    const second = await claimTestJob(ledger, jobId)
    expect(second.fence).toBe(first.fence + 1n)
  })

  it('allows a claim once a short lease has expired by the clock of PostgreSQL', async () => {
    const jobId = await acceptTestJob(ledger)
    await claimTestJob(ledger, jobId, 50)
    await expect.poll(() => ledger.execution.claimJob(jobId, 60_000)).not.toBeNull()
  })

  it('refuses a claim of a deferred job until it is due', async () => {
    const jobId = await acceptTestJob(ledger)
    const job = await claimTestJob(ledger, jobId)
    expect(await ledger.execution.deferJob(job, 60_000)).toBe('written')
    expect(await ledger.execution.claimJob(jobId, 60_000)).toBeNull()
    await ledger.sql("UPDATE jobs SET run_after = now() - interval '1 second' WHERE id = $1", [jobId])
    expect(await ledger.execution.claimJob(jobId, 60_000)).not.toBeNull()
  })
})

describe('a worker whose lease was taken over', () => {
  const unfinished = JOB_STATES.filter(isUnfinished)

  it.each(unfinished)('rejects every write of a worker that lost its lease on a %s job', async (state) => {
    const late = await jobInState(ledger, state)
    await expireLease(late.id)
    const present = await claimTestJob(ledger, late.id)
    const before = await ledger.fingerprint()
    for (const write of writes) expect([write, await fencedWrites[write].run(ledger, late)]).toEqual([write, 'stale'])
    expect(await ledger.execution.renewLeases([late], 60_000)).toEqual(new Set([late.id]))
    expect(await ledger.execution.releaseJob(late)).toBe('stale')
    expect(await ledger.execution.deferJob(late, 0)).toBe('stale')
    expect(await ledger.fingerprint()).toBe(before)
    expect(await ledger.execution.renewLeases([late, present], 60_000)).toEqual(new Set([late.id]))
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
    const { written, attemptId } = await ledger.execution.startAttempt(job, 'second', failed)
    expect(written).toBe('written')
    expect(await attemptsOf(job.id)).toEqual([
      { id: first?.id, deployment: 'elevenlabs', state: 'failed_definite', reason: 'HTTP 429' },
      { id: attemptId, deployment: 'second', state: 'open', reason: null },
    ])
  })

  it('rejects a second attempt while the first is open or has failed ambiguously', async () => {
    const job = await jobInState(ledger, 'generating')
    const before = await ledger.fingerprint()
    await expect(ledger.execution.startAttempt(job, 'second', null)).rejects.toThrow('one_call_per_authorization')
    expect(await ledger.fingerprint()).toBe(before)
    await ledger.sql("UPDATE upstream_attempts SET state = 'failed_ambiguous', finished_at = now() WHERE job_id = $1", [
      job.id,
    ])
    await expect(ledger.execution.startAttempt(job, 'second', null)).rejects.toThrow('one_call_per_authorization')
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
    expect((await ledger.admission.readOutcomes([job.id])).get(job.id)).toEqual({ state: 'settling' })
    expect(await fencedWrites.completeJob.run(ledger, job)).toBe('written')
    const outcome = (await ledger.admission.readOutcomes([job.id])).get(job.id)
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

  it.each(['failed', 'settlement_failed', 'review'] as const)('never returns the result of a %s job', async (state) => {
    const job = await jobInState(ledger, state)
    expect(JSON.stringify((await ledger.admission.readOutcomes([job.id])).get(job.id))).not.toContain('canary')
  })
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
