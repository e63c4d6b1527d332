import pLimit from 'p-limit'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { listenForOutcomes, type OutcomeListener } from '#shared/adapters/postgres/outcome-listener.ts'
import type { AdmissionStore } from '#shared/jobs/job-store.ts'
import { createOutcomeAwaiter, type OutcomeAwaiter } from '../../../api/paid-request/job/await-outcome.ts'
import { createTestLedger, fencedWrites, jobInState, type TestLedger } from '../../support/ledger/test-ledger.ts'

/** Long enough that whatever is delivered earlier was delivered by NOTIFY. */
const NEVER_POLLS_MS = 600_000
const QUICK_POLL_MS = 50
const LISTENER = 'farebox outcome listener'

const silent = { info: () => undefined, warn: () => undefined, error: () => undefined }
const forever = () => new AbortController().signal

let ledger: TestLedger
let awaiter: OutcomeAwaiter
let listener: OutcomeListener | undefined
let reads: (readonly string[])[]
let answeredReads: number
let listenerErrors: unknown[]
beforeAll(async () => {
  ledger = await createTestLedger()
})
beforeEach(() => {
  reads = []
  answeredReads = 0
  listenerErrors = []
})
afterEach(async () => {
  awaiter.close()
  await listener?.close()
  listener = undefined
})
afterAll(() => ledger.close())

/** Fewer than the ledger has connections: a statement that waits for one too long fails. */
const reading = pLimit(16)

/** The real store, with every read noted. */
const store: Pick<AdmissionStore, 'readOutcomes'> = {
  readOutcomes: async (jobIds) => {
    reads.push(jobIds)
    try {
      return await reading(() => ledger.admission.readOutcomes(jobIds))
    } finally {
      answeredReads += 1
    }
  },
}

/** Waits until so many reads are answered, the first look of each waiter among them. */
async function untilAnswered(count: number): Promise<void> {
  await expect.poll(() => answeredReads).toBeGreaterThanOrEqual(count)
}

function createAwaiter(pollMs: number): void {
  awaiter = createOutcomeAwaiter({ store, logger: silent }, pollMs)
}

async function listen(): Promise<void> {
  listener = listenForOutcomes({
    connectionString: ledger.url,
    onOutcome: (jobId) => awaiter.wake(jobId),
    onError: (error) => listenerErrors.push(error),
  })
  await expect.poll(countListeners).toBe(1)
}

async function countListeners(): Promise<number> {
  const [row] = await ledger.sql<{ count: number }>(
    `SELECT count(*)::int FROM pg_stat_activity
     WHERE application_name = $1 AND datname = current_database() AND query LIKE 'LISTEN%' AND state = 'idle'`,
    [LISTENER],
  )
  return row?.count ?? 0
}

async function fail(job: Awaited<ReturnType<typeof jobInState>>): Promise<void> {
  expect(await fencedWrites.failJob.run(ledger, job)).toBe('written')
}

/** A waiter that stays in the map is still read for by every poll. */
async function expectNothingIsPolled(): Promise<void> {
  // A round that was under way has ended, and with it what it was to read anew.
  await expect.poll(() => reads.length - answeredReads).toBe(0)
  const before = reads.length
  await new Promise((resolve) => setTimeout(resolve, QUICK_POLL_MS * 4))
  expect(reads.slice(before)).toEqual([])
}

describe('waiting', () => {
  it('two thousand waiters on a hundred jobs are all resolved over one listening connection', async () => {
    createAwaiter(NEVER_POLLS_MS)
    await listen()
    const jobs = await Promise.all(Array.from({ length: 100 }, () => jobInState(ledger, 'generating')))
    const waits = jobs.flatMap((job) => Array.from({ length: 20 }, () => awaiter.wait(job.id, forever())))
    await untilAnswered(2000)
    for (const job of jobs) await fail(job)
    const outcomes = await Promise.all(waits)
    expect(new Set(outcomes.map(({ state }) => state))).toEqual(new Set(['failed']))
    expect(await countListeners()).toBe(1)
  })

  it('a job that finished before the wait is answered at once, without NOTIFY or poll', async () => {
    createAwaiter(NEVER_POLLS_MS)
    const { id } = await jobInState(ledger, 'failed')
    expect(await awaiter.wait(id, forever())).toEqual({ state: 'failed', failureCode: 'provider_unavailable' })
    expect(reads).toEqual([[id]])
  })

  it('a job that finishes between the registration and the first look is not missed', async () => {
    createAwaiter(NEVER_POLLS_MS)
    const job = await jobInState(ledger, 'generating')
    const delivered = Promise.withResolvers<void>()
    const slowStore: typeof store = {
      readOutcomes: async (jobIds) => {
        const outcomes = await ledger.admission.readOutcomes(jobIds)
        // The first look saw the job unfinished; it finishes, wakes and is read before the answer is there.
        if (outcomes.get(job.id)?.state === 'generating') {
          await fail(job)
          awaiter.wake(job.id)
          await delivered.promise
        } else {
          setImmediate(delivered.resolve)
        }
        return outcomes
      },
    }
    awaiter.close()
    awaiter = createOutcomeAwaiter({ store: slowStore, logger: silent }, NEVER_POLLS_MS)
    expect(await awaiter.wait(job.id, forever())).toMatchObject({ state: 'failed' })
  })

  it('a completed job comes with result, receipt and payment', async () => {
    createAwaiter(NEVER_POLLS_MS)
    await listen()
    const job = await jobInState(ledger, 'settling')
    const waiting = awaiter.wait(job.id, forever())
    await fencedWrites.completeJob.run(ledger, job)
    expect(await waiting).toMatchObject({ state: 'completed', resultBody: job.sealed?.resultBody })
  })

  it('a job that was just accepted is read when it is finished, and not before', async () => {
    createAwaiter(NEVER_POLLS_MS)
    await listen()
    const job = await jobInState(ledger, 'settling')
    const waiting = awaiter.wait(job.id, forever(), { isNew: true })
    expect(reads).toEqual([])
    await fencedWrites.completeJob.run(ledger, job)
    expect(await waiting).toMatchObject({ state: 'completed' })
    expect(reads).toEqual([[job.id]])
  })

  it('a job that is in no ledger throws at once', async () => {
    createAwaiter(QUICK_POLL_MS)
    await expect(awaiter.wait('00000000-0000-4000-8000-000000000000', forever())).rejects.toThrow('not in the ledger')
    await expectNothingIsPolled()
  })
})

describe('a lost NOTIFY', () => {
  it('is caught by the poll, with nobody listening', async () => {
    createAwaiter(QUICK_POLL_MS)
    const job = await jobInState(ledger, 'generating')
    const waiting = awaiter.wait(job.id, forever())
    await untilAnswered(1)
    await fail(job)
    expect(await waiting).toMatchObject({ state: 'failed' })
  })

  it('costs one statement a poll, however many wait', async () => {
    createAwaiter(QUICK_POLL_MS)
    const jobs = await Promise.all(Array.from({ length: 10 }, () => jobInState(ledger, 'generating')))
    const stop = new AbortController()
    const waits = jobs.flatMap(({ id }) => [awaiter.wait(id, stop.signal), awaiter.wait(id, stop.signal)])
    await expect.poll(() => reads.some((jobIds) => jobIds.length === 10)).toBe(true)
    stop.abort()
    await Promise.all(waits)
  })

  it('and a poll that fails are caught by the next poll', async () => {
    const job = await jobInState(ledger, 'generating')
    let failures = 0
    const brokenStore: typeof store = {
      readOutcomes: (jobIds) => {
        reads.push(jobIds)
        if (reads.length > 1 && failures < 3) {
          failures += 1
          return Promise.reject(new Error('the ledger is gone'))
        }
        return ledger.admission.readOutcomes(jobIds)
      },
    }
    awaiter = createOutcomeAwaiter({ store: brokenStore, logger: silent }, QUICK_POLL_MS)
    const waiting = awaiter.wait(job.id, forever())
    await expect.poll(() => failures).toBe(3)
    await fail(job)
    expect(await waiting).toMatchObject({ state: 'failed' })
  })
})

describe('a NOTIFY', () => {
  it('decides nothing: an unfinished row keeps its waiters waiting', async () => {
    createAwaiter(NEVER_POLLS_MS)
    await listen()
    const job = await jobInState(ledger, 'generating')
    let resolved = false
    const waiting = awaiter.wait(job.id, forever()).finally(() => {
      resolved = true
    })
    await untilAnswered(1)
    await ledger.sql("SELECT pg_notify('farebox_outcomes', $1)", [job.id])
    await untilAnswered(2)
    expect(resolved).toBe(false)
    await fail(job)
    expect(await waiting).toMatchObject({ state: 'failed' })
  })

  it('for a job that nobody waits for, or for junk, reads nothing', async () => {
    createAwaiter(NEVER_POLLS_MS)
    await listen()
    const { id } = await jobInState(ledger, 'generating')
    const stop = new AbortController()
    const waiting = awaiter.wait(id, stop.signal)
    await untilAnswered(1)
    // They arrive in their order.
    for (const payload of ['00000000-0000-4000-8000-000000000000', 'junk', '', id])
      await ledger.sql("SELECT pg_notify('farebox_outcomes', $1)", [payload])
    await untilAnswered(2)
    expect([reads, listenerErrors]).toEqual([[[id], [id]], []])
    stop.abort()
    await waiting
  })
})

describe('the listener', () => {
  it('listens again after its connection was ended by the server', async () => {
    createAwaiter(NEVER_POLLS_MS)
    await listen()
    await ledger.sql(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
       WHERE application_name = $1 AND datname = current_database()`,
      [LISTENER],
    )
    await expect.poll(() => listenerErrors.length).toBeGreaterThan(0)
    await expect.poll(countListeners).toBe(1)
    const job = await jobInState(ledger, 'generating')
    const waiting = awaiter.wait(job.id, forever())
    await untilAnswered(1)
    await fail(job)
    expect(await waiting).toMatchObject({ state: 'failed' })
  })

  it('keeps trying while the server cannot be reached, and closes at once', async () => {
    createAwaiter(NEVER_POLLS_MS)
    listener = listenForOutcomes({
      connectionString: 'postgres://nobody@127.0.0.1:1/none',
      onOutcome: () => undefined,
      onError: (error) => listenerErrors.push(error),
    })
    await expect.poll(() => listenerErrors.length).toBeGreaterThan(1)
    await listener.close()
    const errors = listenerErrors.length
    await new Promise((resolve) => setTimeout(resolve, 700))
    expect(listenerErrors).toHaveLength(errors)
  })

  it('leaves no connection behind when it is closed', async () => {
    createAwaiter(NEVER_POLLS_MS)
    await listen()
    await listener?.close()
    await expect.poll(countListeners).toBe(0)
  })
})

describe('an aborted wait', () => {
  it('returns how the job stands now, and is forgotten', async () => {
    createAwaiter(QUICK_POLL_MS)
    const job = await jobInState(ledger, 'generating')
    const stop = new AbortController()
    const waiting = awaiter.wait(job.id, stop.signal)
    await fencedWrites.sealResult.run(ledger, job)
    stop.abort()
    expect(await waiting).toEqual({ state: 'generated' })
    await expectNothingIsPolled()
  })

  it('that was aborted before it began returns how the job stands', async () => {
    createAwaiter(NEVER_POLLS_MS)
    const { id } = await jobInState(ledger, 'generating')
    expect(await awaiter.wait(id, AbortSignal.abort())).toEqual({ state: 'generating' })
  })

  it('leaves the other waiters of its job waiting', async () => {
    createAwaiter(QUICK_POLL_MS)
    const job = await jobInState(ledger, 'generating')
    const stop = new AbortController()
    const [aborted, other] = [awaiter.wait(job.id, stop.signal), awaiter.wait(job.id, forever())]
    stop.abort()
    expect(await aborted).toEqual({ state: 'generating' })
    await fail(job)
    expect(await other).toMatchObject({ state: 'failed' })
    await expectNothingIsPolled()
  })
})

it('a resolved waiter is forgotten', async () => {
  createAwaiter(QUICK_POLL_MS)
  const job = await jobInState(ledger, 'generating')
  const waiting = awaiter.wait(job.id, forever())
  await fail(job)
  await waiting
  await expectNothingIsPolled()
})
