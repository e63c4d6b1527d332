import { mkdtemp, readdir, rm, symlink, utimes } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { createDiskObjectStore } from '#shared/adapters/disk/disk-store.ts'
import type { QueueName } from '#shared/jobs/job-queue.ts'
import { JOB_STATES } from '#shared/jobs/job.ts'
import { isUnfinished } from '#shared/jobs/transitions.ts'
import { deferJob } from '#shared/ledger/execution/leases.ts'
import { takeDueJobs } from '#shared/ledger/execution/take-due-jobs.ts'
import { inTransaction } from '#shared/ledger/transaction.ts'
import { encryptUpload, newStagedUpload } from '#shared/media/staged-upload.ts'
import { reapStrayUploads, reapUploads, retentionSweeps } from '../../../workers/sweepers/retention.ts'
import {
  acceptTestJob,
  called,
  claimTestJob,
  fencedWrites,
  jobInState,
  moveToState,
} from '../../support/ledger/job-in-state.ts'
import { newTestJob } from '../../support/ledger/new-test-job.ts'
import { randomAddress, testAuthorization } from '../../support/ledger/test-authorization.ts'
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

/** Accepts a job that the API should have enqueued by now. */
async function acceptLeftJob(): Promise<string> {
  const jobId = await acceptTestJob(ledger)
  await leave(jobId)
  return jobId
}

const leave = (jobId: string) =>
  ledger.sql("UPDATE jobs SET run_after = now() - interval '1 second' WHERE id = $1", [jobId])

const take = async (limit = 200) =>
  (await ledger.execution.takeDueJobs(JOB_STATES.filter(isUnfinished), limit)).map(({ id }) => id)

describe('failed settlements that no block has judged', () => {
  it('are all looked at in time, however many of them stay open', async () => {
    const failed = await Promise.all(Array.from({ length: 30 }, () => jobInState(ledger, 'settlement_failed')))
    const seen = new Set<string>()
    for (let poll = 0; poll < 100; poll += 1)
      for (const { jobId } of await ledger.settlement.readFailed('own_key', null, 20)) seen.add(jobId)
    expect(failed.filter(({ id }) => !seen.has(id))).toEqual([])
  })
})

describe('taking due jobs', () => {
  it('returns every due job to exactly one of four concurrent sweepers', async () => {
    const jobIds: string[] = []
    for (let index = 0; index < 60; index += 1) jobIds.push(await acceptLeftJob())
    const taken: string[] = []
    while (true) {
      const rounds = await Promise.all([take(10), take(10), take(10), take(10)])
      if (rounds.every((round) => round.length === 0)) break
      taken.push(...rounds.flat())
    }
    expect([...taken].sort()).toEqual([...jobIds].sort())
  })

  it('leaves jobs of paused queues to them, and takes all others', async () => {
    const accepted = await acceptLeftJob()
    const generatedJob = await jobInState(ledger, 'generated')
    await ledger.execution.releaseJob(generatedJob)
    const deferred = await acceptTestJob(ledger)
    await ledger.execution.deferJob(await claimTestJob(ledger, deferred), 60_000)
    await ledger.sql('UPDATE jobs SET run_after = now(), enqueued_at = NULL WHERE id = $1', [deferred])
    const generated = generatedJob.id
    const taken = async (...paused: QueueName[]) =>
      new Set(
        (await ledger.execution.takeDueJobs(['accepted', 'generated', 'settling'], 200, new Set(paused))).map(
          ({ id }) => id,
        ),
      )
    expect(await taken('transcriptions', 'settlement')).toEqual(new Set())
    expect(await taken('transcriptions', 'text')).toEqual(new Set([generated]))
    expect(await taken('settlement')).toEqual(new Set([accepted, deferred]))
  })

  it('skips a job whose row another transaction has locked, without waiting', async () => {
    const [locked, free] = [await acceptLeftJob(), await acceptLeftJob()]
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
    const jobId = await acceptLeftJob()
    await ledger.acceptance.markEnqueued(jobId)
    expect(await take()).toEqual([])
    await ledger.sql("UPDATE jobs SET enqueued_at = now() - interval '31 seconds' WHERE id = $1", [jobId])
    expect(await take()).toEqual([jobId])
    expect(await take()).toEqual([])
  })

  it('skips a leased job, and returns it as soon as its lease has expired', async () => {
    const jobId = await acceptLeftJob()
    await ledger.acceptance.markEnqueued(jobId)
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
    await ledger.execution.deferJob(await claimTestJob(ledger, jobId), 60_000)
    expect(await take()).toEqual([])
    await ledger.sql('UPDATE jobs SET run_after = now() WHERE id = $1', [jobId])
    expect(await take()).toEqual([jobId])
  })

  it('returns a due job that was deferred before the API marked it as enqueued', async () => {
    const jobId = await acceptTestJob(ledger)
    await ledger.execution.deferJob(await claimTestJob(ledger, jobId), 60_000)
    await ledger.acceptance.markEnqueued(jobId)
    await ledger.sql('UPDATE jobs SET run_after = now() WHERE id = $1', [jobId])
    expect(await take()).toEqual([jobId])
  })

  it.each([
    [499, false],
    [501, true],
  ])('leaves an accepted job to the API for half a second: after %i ms it is taken: %s', async (ms, isTaken) => {
    const jobId = await acceptTestJob(ledger)
    const taken = await inTransaction(ledger.pool, async (sql) => {
      // By the clock of one transaction, which does not go on.
      await sql.query({
        name: `test_accepted_${ms}_ms_ago`,
        text: 'UPDATE jobs SET run_after = now() - make_interval(secs => $2 / 1000.0) WHERE id = $1',
        values: [jobId, ms],
      })
      return await takeDueJobs(sql, ['accepted'], 200)
    })
    expect(taken.map(({ id }) => id)).toEqual(isTaken ? [jobId] : [])
  })

  it.each(JOB_STATES)('returns a %s job only when that state is requested and unfinished', async (state) => {
    const job = await jobInState(ledger, state)
    await ledger.sql('UPDATE jobs SET lease_expires_at = NULL, enqueued_at = NULL WHERE id = $1', [job.id])
    await leave(job.id)
    expect(
      await ledger.execution.takeDueJobs(
        JOB_STATES.filter((other) => other !== state),
        10,
      ),
    ).toEqual([])
    expect(await take()).toEqual(isUnfinished(state) ? [job.id] : [])
  })
})

const makeDue = (jobId: string) => ledger.sql('UPDATE jobs SET run_after = now() WHERE id = $1', [jobId])
const defer = async (jobId: string, delayMs = 0) =>
  ledger.execution.deferJob(await claimTestJob(ledger, jobId), delayMs)

async function acceptOf(payer: `0x${string}`): Promise<string> {
  return await acceptTestJob(ledger, newTestJob({ authorization: testAuthorization({ payer }) }))
}

/** Defers the job by one second or more. Returns the delay by the clock of its transaction. */
async function deferOnce(jobId: string): Promise<number> {
  await makeDue(jobId)
  const job = await claimTestJob(ledger, jobId)
  return await inTransaction(ledger.pool, async (sql) => {
    await deferJob(sql, job, 1000, false)
    const { rows } = await sql.query<{ seconds: number }>({
      name: 'test_read_delay',
      text: 'SELECT extract(epoch FROM run_after - now())::float8 AS seconds FROM jobs WHERE id = $1',
      values: [jobId],
    })
    return rows[0]?.seconds ?? Number.NaN
  })
}

const deferralOf = async (jobId: string) =>
  (await ledger.sql('SELECT deferrals, deferred_since FROM jobs WHERE id = $1', [jobId]))[0]

describe('taking deferred jobs', () => {
  it('takes a stranger’s jobs first when 200 jobs of one payer are deferred, and only a few of these at a time', async () => {
    const payer = randomAddress()
    const many = new Set<string>()
    for (let index = 0; index < 200; index += 1) {
      const jobId = await acceptOf(payer)
      many.add(jobId)
      await defer(jobId)
    }
    const [deferredStranger, fresh] = [await acceptTestJob(ledger), await acceptLeftJob()]
    await defer(deferredStranger)
    await ledger.sql("UPDATE jobs SET run_after = now() - interval '1 minute' WHERE payer = $1", [payer])
    const [first, ...others] = await take(200)
    expect(first).toBe(fresh)
    expect(others).toContain(deferredStranger)
    const taken = others.filter((jobId) => many.has(jobId))
    expect(taken.length).toBeGreaterThan(0)
    expect(taken.length).toBeLessThan(10)
    // Enqueued, and then leased: neither sweep takes more of this payer's.
    expect(await take(200)).toEqual([])
    const claimed = await Promise.all(taken.map((jobId) => claimTestJob(ledger, jobId)))
    await ledger.sql("UPDATE jobs SET enqueued_at = now() - interval '1 minute' WHERE payer = $1", [payer])
    expect(await take(200)).toEqual([])
    // One that moves on, or is deferred again, makes room for the next.
    const [one, two] = claimed
    if (!one || !two) throw new Error('no job')
    await ledger.execution.startAttempt(one, called('elevenlabs'), null)
    await ledger.execution.deferJob(two, 60_000)
    expect(await take(200)).toHaveLength(2)
  })

  it('takes a lost provider call although a worker of the previous version left it marked as deferred', async () => {
    const jobId = await acceptTestJob(ledger)
    const job = await claimTestJob(ledger, jobId)
    await ledger.execution.startAttempt(job, called('elevenlabs'), null)
    await ledger.sql(
      `UPDATE jobs SET deferred_since = now(), deferrals = 1, lease_expires_at = now() - interval '1 second',
         run_after = now() - interval '1 second', enqueued_at = NULL WHERE id = $1`,
      [jobId],
    )
    expect((await ledger.execution.takeDueJobs(['generating'], 200)).map(({ id }) => id)).toContain(jobId)
  })

  it('returns every deferred job of one payer in turn', async () => {
    const payer = randomAddress()
    const waiting = new Set<string>()
    for (let index = 0; index < 20; index += 1) {
      const jobId = await acceptOf(payer)
      await defer(jobId)
      waiting.add(jobId)
    }
    await ledger.sql("UPDATE jobs SET run_after = now() - interval '1 second' WHERE payer = $1", [payer])
    while (waiting.size > 0) {
      const taken = await take()
      expect(taken).not.toEqual([])
      for (const jobId of taken) {
        expect(waiting.delete(jobId)).toBe(true)
        await defer(jobId, 60_000)
      }
    }
  })
})

describe('the delay of a deferred job', () => {
  it('doubles the delay of a deferred job up to a limit, and starts again in the next state', async () => {
    const jobId = await acceptTestJob(ledger)
    const delays: number[] = []
    for (let deferral = 0; deferral < 8; deferral += 1) delays.push(await deferOnce(jobId))
    for (const [index, delay] of delays.entries()) {
      const least = Math.min(2 ** index, 30)
      expect(delay).toBeGreaterThanOrEqual(least)
      expect(delay).toBeLessThanOrEqual(1.25 * least)
    }
    await makeDue(jobId)
    const generated = await moveToState(ledger, await claimTestJob(ledger, jobId), 'generated')
    expect(await deferralOf(jobId)).toEqual({ deferrals: 0, deferred_since: null })
    await ledger.execution.deferJob(generated, 1000)
    expect(await deferralOf(jobId)).toEqual({ deferrals: 1, deferred_since: expect.any(Date) })
    await makeDue(jobId)
    await fencedWrites.recordSettlement.run(ledger, await claimTestJob(ledger, jobId))
    expect(await deferralOf(jobId)).toEqual({ deferrals: 0, deferred_since: null })
  })

  it('counts the time of deferral from the first one in a state', async () => {
    const jobId = await acceptTestJob(ledger)
    const job = await claimTestJob(ledger, jobId)
    expect(job.deferredMs).toBe(0)
    await ledger.execution.deferJob(job, 0)
    await ledger.sql("UPDATE jobs SET deferred_since = deferred_since - interval '1 minute' WHERE id = $1", [jobId])
    await deferOnce(jobId)
    await makeDue(jobId)
    expect((await claimTestJob(ledger, jobId)).deferredMs).toBeGreaterThanOrEqual(60_000)
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

  it('retries an object that could not be deleted, which holds no other back', async () => {
    const [kept, other] = [newTestJob(), newTestJob()]
    for (const job of [kept, other]) {
      await acceptTestJob(ledger, job)
      await expire(job.stagedUpload.id)
    }
    const deleted: string[] = []
    let isKept = true
    const reap = reapUploads({
      retentionStore: ledger.retention,
      uploads: {
        delete: async (key) => {
          if (isKept && key === kept.stagedUpload.objectKey) throw new Error('the store keeps it')
          deleted.push(key)
        },
      },
    })
    const error: unknown = await reap.run().catch((reason: unknown) => reason)
    expect(error).toMatchObject({
      message: expect.stringMatching(/^1 of \d+ objects are left/),
      cause: { message: 'the store keeps it' },
    })
    expect(deleted).toContain(other.stagedUpload.objectKey)
    expect(await ledger.execution.openStagedUpload(kept.stagedUpload.id)).toBeNull()
    isKept = false
    deleted.length = 0
    expect(await reap.run()).toBe(1)
    expect(deleted).toEqual([kept.stagedUpload.objectKey])
  })

  it('deletes what expired after more objects than a batch that the store keeps, and asks for those again', async () => {
    const jobId = await acceptTestJob(ledger)
    await ledger.sql('UPDATE staged_uploads SET object_deleted_at = now() WHERE job_id = $1', [jobId])
    const addErased = (name: string, count: number, expiredAgo: string) =>
      ledger.sql(
        `INSERT INTO staged_uploads (id, job_id, object_key, expires_at, erased_at)
         SELECT gen_random_uuid(), $1, $2 || number, now() - $3::interval, now() FROM generate_series(1, $4) AS number`,
        [jobId, `staged/${name}-`, expiredAgo, count],
      )
    await addErased('kept', 450, '1 hour')
    await addErased('later', 10, '1 minute')
    const deleted = new Set<string>()
    let isKept = true
    const reap = reapUploads({
      retentionStore: ledger.retention,
      uploads: {
        delete: async (key) => {
          if (isKept && key.startsWith('staged/kept-')) throw new Error('the store keeps it')
          deleted.add(key)
        },
      },
    })
    for (let round = 1; round <= 3; round += 1) await reap.run().catch(() => 0)
    expect(deleted.size).toBe(10)
    isKept = false
    for (let round = 1; round <= 3; round += 1) await reap.run()
    expect(deleted.size).toBe(460)
  })

  it('deletes strays on a disk beside an entry that cannot be examined', async () => {
    const uploads = createDiskObjectStore(directory)
    const strays = Array.from({ length: 5 }, newStagedUpload)
    const longAgo = new Date(Date.now() - 3_700_000)
    for (const stray of strays) {
      await uploads.put(stray.objectKey, sealed(stray))
      await utimes(join(directory, stray.objectKey), longAgo, longAgo)
    }
    const loop = join(directory, 'staged', '0')
    await symlink(loop, loop)
    onTestFinished(() => rm(loop))
    await expect(reapStrayUploads({ uploads }).run()).rejects.toThrow('1 object under staged/ is left')
    const left = await readdir(join(directory, 'staged'))
    expect(strays.filter(({ id }) => left.includes(id))).toEqual([])
  })

  it('deletes stray images although stray speech cannot be deleted', async () => {
    const asked: string[] = []
    const media = {
      delete: async () => undefined,
      deleteOlderThan: async (prefix: string) => {
        asked.push(prefix)
        throw new Error('the store keeps one')
      },
    }
    const sweeps = retentionSweeps({ retentionStore: ledger.retention, uploads: media, media }, 1000)
    for (const sweep of sweeps) if (sweep.name.includes('stray')) await sweep.run().catch(() => 0)
    expect(asked).toEqual(['staged', 'media/speech', 'media/images'])
  })
})

it('forgets the networks of uncharged work also when no worker has run for weeks', async () => {
  const failed = await jobInState(ledger, 'generating', newTestJob({ clientNetwork: '198.51.100.0/24' }))
  await ledger.execution.failJob(failed, { code: 'provider_empty_output', reason: 'test', attempt: 'failed_empty' })
  await ledger.sql(
    `UPDATE uncharged_work SET is_new_payer = true, client_network = '198.51.100.0/24',
       created_at = now() - interval '40 days' WHERE job_id = $1`,
    [failed.id],
  )
  const stores = { uploads: createDiskObjectStore(directory), media: createDiskObjectStore(directory) }
  const sweeps = retentionSweeps({ retentionStore: ledger.retention, ...stores }, 1000)
  const forget = sweeps.find(({ name }) => name === 'forgot networks of callers')
  expect(await forget?.run()).toBe(1)
  expect(await forget?.run()).toBe(0)
})

function sealed(upload: ReturnType<typeof newStagedUpload>): Uint8Array {
  return encryptUpload(upload, Buffer.from('audio'))
}

async function expire(stagedUploadId: string): Promise<void> {
  await ledger.sql("UPDATE staged_uploads SET expires_at = now() - interval '1 second' WHERE id = $1", [stagedUploadId])
}
