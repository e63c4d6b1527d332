import { mkdtemp, readdir, rm, utimes } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { createDiskObjectStore } from '#shared/adapters/disk/object-store.ts'
import { JOB_STATES } from '#shared/jobs/job.ts'
import { isUnfinished } from '#shared/jobs/transitions.ts'
import { encryptUpload, newStagedUpload } from '#shared/media/staged-upload.ts'
import { reapStrayUploads, reapUploads } from '../../../workers/sweepers/reap-uploads.ts'
import { acceptTestJob, claimTestJob, fencedWrites, jobInState } from '../../support/ledger/job-in-state.ts'
import { newTestJob } from '../../support/ledger/new-test-job.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'

let ledger: TestLedger
let directory: string
beforeAll(async () => {
  ledger = await createTestLedger()
  directory = await mkdtemp(join(tmpdir(), 'farebox-uploads-'))
})
afterEach(async () => {
  // Jobs that a test leaves due must not be swept in the next one.
  await ledger.sql("UPDATE jobs SET run_after = 'infinity'")
})
afterAll(async () => {
  await ledger.close()
  await rm(directory, { recursive: true, force: true })
})

const take = async (limit = 200) =>
  (await ledger.execution.takeDueJobs(JOB_STATES.filter(isUnfinished), limit)).map(({ id }) => id)

describe('taking due jobs', () => {
  it('returns every due job to exactly one of four concurrent sweepers', async () => {
    const jobIds: string[] = []
    for (let index = 0; index < 60; index += 1) jobIds.push(await acceptTestJob(ledger))
    const taken: string[] = []
    while (true) {
      const rounds = await Promise.all([take(10), take(10), take(10), take(10)])
      if (rounds.every((round) => round.length === 0)) break
      taken.push(...rounds.flat())
    }
    expect([...taken].sort()).toEqual([...jobIds].sort())
  })

  it('skips a job whose row another transaction has locked, without waiting', async () => {
    const [locked, free] = [await acceptTestJob(ledger), await acceptTestJob(ledger)]
    const client = await ledger.pool.connect()
    await client.query('BEGIN')
    await client.query('SELECT 1 FROM jobs WHERE id = $1 FOR UPDATE', [locked])
    const taken = await take()
    await client.query('ROLLBACK')
    client.release()
    expect(taken).toEqual([free])
    expect(await take()).toEqual([locked])
  })

  it('skips a job that was enqueued recently, and returns it once the queue seems to have lost it', async () => {
    const jobId = await acceptTestJob(ledger)
    await ledger.admission.markEnqueued(jobId)
    expect(await take()).toEqual([])
    await ledger.sql("UPDATE jobs SET enqueued_at = now() - interval '31 seconds' WHERE id = $1", [jobId])
    expect(await take()).toEqual([jobId])
    expect(await take()).toEqual([])
  })

  it('skips a leased job, and returns it as soon as its lease has expired', async () => {
    const jobId = await acceptTestJob(ledger)
    await ledger.admission.markEnqueued(jobId)
    await claimTestJob(ledger, jobId)
    expect(await take()).toEqual([])
    await ledger.sql(
      `UPDATE jobs SET lease_expires_at = now() - interval '1 second', enqueued_at = now() - interval '2 seconds'
       WHERE id = $1`,
      [jobId],
    )
    expect(await take()).toEqual([jobId])
    expect(await take()).toEqual([])
  })

  it('skips a deferred job until it is due', async () => {
    const jobId = await acceptTestJob(ledger)
    await ledger.execution.releaseJob(await claimTestJob(ledger, jobId), 60_000)
    expect(await take()).toEqual([])
    await ledger.sql('UPDATE jobs SET run_after = now() WHERE id = $1', [jobId])
    expect(await take()).toEqual([jobId])
  })

  it('returns a due job that was deferred before the API marked it as enqueued', async () => {
    const jobId = await acceptTestJob(ledger)
    await ledger.execution.releaseJob(await claimTestJob(ledger, jobId), 60_000)
    await ledger.admission.markEnqueued(jobId)
    await ledger.sql('UPDATE jobs SET run_after = now() WHERE id = $1', [jobId])
    expect(await take()).toEqual([jobId])
  })

  it.each(JOB_STATES)('returns a %s job only when that state is requested and unfinished', async (state) => {
    const job = await jobInState(ledger, state)
    await ledger.sql('UPDATE jobs SET lease_expires_at = NULL, enqueued_at = NULL WHERE id = $1', [job.id])
    expect(
      await ledger.execution.takeDueJobs(
        JOB_STATES.filter((other) => other !== state),
        10,
      ),
    ).toEqual([])
    expect(await take()).toEqual(isUnfinished(state) ? [job.id] : [])
  })
})

describe('a staged upload', () => {
  it('opens a staged upload with the data key it was accepted with', async () => {
    const job = newTestJob()
    await acceptTestJob(ledger, job)
    const opened = await ledger.execution.openStagedUpload(job.stagedUpload.id)
    expect(opened).toMatchObject({ id: job.stagedUpload.id, objectKey: job.stagedUpload.objectKey })
    expect(Buffer.from(job.stagedUpload.dataKey).equals(opened?.dataKey ?? Buffer.alloc(0))).toBe(true)
  })

  it('does not open an expired upload, even before a sweep', async () => {
    const job = newTestJob()
    await acceptTestJob(ledger, job)
    await expire(job.stagedUpload.id)
    expect(await ledger.execution.openStagedUpload(job.stagedUpload.id)).toBeNull()
  })

  it('keeps a staged upload for at most one hour [spec T15, B18]', async () => {
    const job = newTestJob()
    await acceptTestJob(ledger, job)
    expect(
      await ledger.sql(
        `SELECT expires_at BETWEEN now() + interval '59 minutes' AND now() + interval '1 hour' AS within_the_hour
         FROM staged_uploads WHERE id = $1`,
        [job.stagedUpload.id],
      ),
    ).toEqual([{ within_the_hour: true }])
  })

  it.each(['generated', 'failed'] as const)(
    'erases the data key of an upload when its job is %s [spec T13]',
    async (state) => {
      const job = newTestJob()
      await jobInState(ledger, state, job)
      expect(await ledger.execution.openStagedUpload(job.stagedUpload.id)).toBeNull()
      expect(await ledger.sql('SELECT data_key FROM staged_uploads WHERE id = $1', [job.stagedUpload.id])).toEqual([
        { data_key: null },
      ])
    },
  )

  it('keeps an upload readable after an ambiguous failure until it expires [spec T14]', async () => {
    const job = newTestJob()
    const generating = await jobInState(ledger, 'generating', job)
    const failure = { code: 'provider_outcome_unknown', reason: 'test', attempt: 'failed_ambiguous' } as const
    await ledger.execution.failJob(generating, failure)
    expect(await ledger.execution.openStagedUpload(job.stagedUpload.id)).not.toBeNull()
    await expire(job.stagedUpload.id)
    expect(await ledger.execution.openStagedUpload(job.stagedUpload.id)).toBeNull()
  })
})

describe('deleting uploads', () => {
  it('deletes expired, erased and stray uploads, and none that can still be read', async () => {
    const uploads = createDiskObjectStore(directory)
    const [expired, erased, live] = [newTestJob(), newTestJob(), newTestJob()]
    for (const job of [expired, erased, live]) await uploads.put(job.stagedUpload.objectKey, sealed(job.stagedUpload))
    await acceptTestJob(ledger, expired)
    await expire(expired.stagedUpload.id)
    await fencedWrites.failJob.run(ledger, await jobInState(ledger, 'generating', erased))
    await acceptTestJob(ledger, live)
    const [stray, freshStray] = [newStagedUpload(), newStagedUpload()]
    await uploads.put(stray.objectKey, sealed(stray))
    await uploads.put(freshStray.objectKey, sealed(freshStray))
    const longAgo = new Date(Date.now() - 3_700_000)
    await utimes(join(directory, stray.objectKey), longAgo, longAgo)

    const reap = reapUploads({ retentionStore: ledger.retention, uploads })
    await reap.run()
    await reapStrayUploads({ uploads }).run()
    expect((await readdir(join(directory, 'staged'))).sort()).toEqual([live.stagedUpload.id, freshStray.id].sort())
    expect(await ledger.sql('SELECT data_key FROM staged_uploads WHERE id = $1', [expired.stagedUpload.id])).toEqual([
      { data_key: null },
    ])
    expect(await ledger.execution.openStagedUpload(live.stagedUpload.id)).not.toBeNull()
    expect(await reap.run()).toBe(0)
  })

  it('retries an object that could not be deleted', async () => {
    const job = newTestJob()
    await acceptTestJob(ledger, job)
    await expire(job.stagedUpload.id)
    const deleted: string[] = []
    let broken = true
    const reap = reapUploads({
      retentionStore: ledger.retention,
      uploads: {
        delete: async (key) => {
          if (broken) throw new Error('the store is down')
          deleted.push(key)
        },
      },
    })
    await expect(reap.run()).rejects.toThrow('the store is down')
    expect(await ledger.execution.openStagedUpload(job.stagedUpload.id)).toBeNull()
    broken = false
    await reap.run()
    expect(deleted).toContain(job.stagedUpload.objectKey)
  })
})

function sealed(upload: ReturnType<typeof newStagedUpload>): Uint8Array {
  return encryptUpload(upload, Buffer.from('audio'))
}

async function expire(stagedUploadId: string): Promise<void> {
  await ledger.sql("UPDATE staged_uploads SET expires_at = now() - interval '1 second' WHERE id = $1", [stagedUploadId])
}
