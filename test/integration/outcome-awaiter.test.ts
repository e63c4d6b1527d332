import { getEventListeners } from 'node:events'
import { createServer, type Socket } from 'node:net'
import pLimit from 'p-limit'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import type { AcceptanceStore } from '#shared/ledger/acceptance/acceptance-store.ts'
import { listenForOutcomes, type OutcomeListener } from '#shared/ledger/outcome-listener.ts'
import { withDeadline } from '#shared/runtime/with-deadline.ts'
import { createOutcomeAwaiter, type OutcomeAwaiter } from '../../api/paid-request/answer/await-outcome.ts'
import { fencedWrites, jobInState } from '../support/ledger/job-in-state.ts'
import { createTestLedger, type TestLedger } from '../support/ledger/test-ledger.ts'
import { PATIENCE_MS } from '../support/patience.ts'

/** So long that anything delivered earlier was delivered by NOTIFY. */
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
/** Fewer than the ledger's connections: a statement that waits too long for one fails. */
const reading = pLimit(16)
/** The real store, recording every read. */
const store: Pick<AcceptanceStore, 'readOutcomes'> = {
  readOutcomes: async (jobIds) => {
    reads.push(jobIds)
    try {
      return await reading(() => ledger.acceptance.readOutcomes(jobIds))
    } finally {
      answeredReads += 1
    }
  },
}
/** Waits until `count` reads are answered, including the first read of each waiter. */
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
/** Checks that no waiter is left: every poll reads the jobs of all waiters. */
async function expectNothingIsPolled(): Promise<void> {
  // Waits for a poll in progress, and for its repeated reads.
  await expect.poll(() => reads.length - answeredReads).toBe(0)
  const before = reads.length
  await new Promise((resolve) => setTimeout(resolve, QUICK_POLL_MS * 4))
  expect(reads.slice(before)).toEqual([])
}
it('a resolved waiter is removed', async () => {
  createAwaiter(QUICK_POLL_MS)
  const job = await jobInState(ledger, 'generating')
  const waiting = awaiter.wait(job.id, forever())
  await fail(job)
  await waiting
  await expectNothingIsPolled()
})

describe('waiting for an outcome', () => {
  it('resolves two thousand waiters on a hundred jobs over one listening connection', async () => {
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

  it('resolves immediately for a job that finished before the wait, without NOTIFY or poll', async () => {
    createAwaiter(NEVER_POLLS_MS)
    const { id } = await jobInState(ledger, 'failed')
    expect(await awaiter.wait(id, forever())).toEqual({ state: 'failed', failureCode: 'provider_unavailable' })
    expect(reads).toEqual([[id]])
  })

  it('does not miss a job that finishes between registration and first read', async () => {
    createAwaiter(NEVER_POLLS_MS)
    const job = await jobInState(ledger, 'generating')
    const delivered = Promise.withResolvers<void>()
    const slowStore: typeof store = {
      readOutcomes: async (jobIds) => {
        const outcomes = await ledger.acceptance.readOutcomes(jobIds)
        // The first read saw the job unfinished; it finishes, wakes and is read again before that read returns.
        if (reads.push(jobIds) === 1) {
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

  it('resolves with the result of a completed job', async () => {
    createAwaiter(NEVER_POLLS_MS)
    await listen()
    const job = await jobInState(ledger, 'settling')
    const waiting = awaiter.wait(job.id, forever())
    await fencedWrites.completeJob.run(ledger, job)
    expect(await waiting).toMatchObject({ state: 'completed', resultBody: expect.stringContaining('one canary') })
  })

  it('does not read a job that was just accepted before it is finished', async () => {
    createAwaiter(NEVER_POLLS_MS)
    await listen()
    const job = await jobInState(ledger, 'settling')
    const waiting = awaiter.wait(job.id, forever(), { isNew: true })
    expect(reads).toEqual([])
    await fencedWrites.completeJob.run(ledger, job)
    expect(await waiting).toMatchObject({ state: 'completed' })
    expect(reads).toEqual([[job.id]])
  })

  it('throws immediately for a job that is not in the ledger', async () => {
    createAwaiter(QUICK_POLL_MS)
    await expect(awaiter.wait('00000000-0000-4000-8000-000000000000', forever())).rejects.toThrow('not in the ledger')
    await expectNothingIsPolled()
  })
})

describe('a row that contradicts itself', () => {
  it('fails its own caller at once and nobody else', async () => {
    createAwaiter(QUICK_POLL_MS)
    const [broken, other] = [await jobInState(ledger, 'settling'), await jobInState(ledger, 'generating')]
    const waits = [broken, other].map(({ id }) => awaiter.wait(id, forever()))
    await untilAnswered(2)
    await ledger.sql('ALTER TABLE jobs DROP CONSTRAINT failure_has_code')
    onTestFinished(async () => {
      await ledger.sql(`UPDATE jobs SET failure_code = 'settlement_failed' WHERE id = $1`, [broken.id])
      await ledger.sql(`ALTER TABLE jobs ADD CONSTRAINT failure_has_code
        CHECK ((state IN ('failed', 'settlement_failed')) = (failure_code IS NOT NULL))`)
    })
    await ledger.sql(`UPDATE jobs SET state = 'settlement_failed', finished_at = now() WHERE id = $1`, [broken.id])
    await fail(other)
    const ended = withDeadline(PATIENCE_MS, Promise.allSettled(waits), () => 'late')
    expect(await ended).toMatchObject([
      { status: 'rejected', reason: { message: `job ${broken.id} failed without a code` } },
      { status: 'fulfilled', value: { state: 'failed' } },
    ])
    await expectNothingIsPolled()
  })
})

describe('a lost NOTIFY', () => {
  it('a poll finds an outcome whose NOTIFY was lost', async () => {
    createAwaiter(QUICK_POLL_MS)
    const job = await jobInState(ledger, 'generating')
    const waiting = awaiter.wait(job.id, forever())
    await untilAnswered(1)
    await fail(job)
    expect(await waiting).toMatchObject({ state: 'failed' })
  })

  it('a poll is one statement, however many wait', async () => {
    createAwaiter(QUICK_POLL_MS)
    const jobs = await Promise.all(Array.from({ length: 10 }, () => jobInState(ledger, 'generating')))
    const stop = new AbortController()
    const waits = jobs.flatMap(({ id }) => [awaiter.wait(id, stop.signal), awaiter.wait(id, stop.signal)])
    await expect.poll(() => reads.some((jobIds) => jobIds.length === 10)).toBe(true)
    stop.abort()
    await Promise.all(waits)
  })

  it('the next poll finds an outcome after a lost NOTIFY and failed polls', async () => {
    const job = await jobInState(ledger, 'generating')
    let failures = 0
    const brokenStore: typeof store = {
      readOutcomes: (jobIds) => {
        reads.push(jobIds)
        if (reads.length > 1 && failures < 3) {
          failures += 1
          return Promise.reject(new Error('the ledger is gone'))
        }
        return ledger.acceptance.readOutcomes(jobIds)
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
  it('a NOTIFY for an unfinished job leaves its waiters waiting', async () => {
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

  it('a NOTIFY for a job without waiters, or with an invalid payload, reads nothing', async () => {
    createAwaiter(NEVER_POLLS_MS)
    await listen()
    const { id } = await jobInState(ledger, 'generating')
    const stop = new AbortController()
    const waiting = awaiter.wait(id, stop.signal)
    await untilAnswered(1)
    // Notifications arrive in order.
    for (const payload of ['00000000-0000-4000-8000-000000000000', 'junk', '', id])
      await ledger.sql("SELECT pg_notify('farebox_outcomes', $1)", [payload])
    await untilAnswered(2)
    expect([reads, listenerErrors]).toEqual([[[id], [id]], []])
    stop.abort()
    await waiting
  })
})

describe('the outcome listener', () => {
  it('the listener reconnects after the server terminated its connection', async () => {
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

  it('the listener retries while the server is unreachable, and closes immediately', async () => {
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

  it('closes soon, and connects again, while a server accepts connections and does not answer', async () => {
    createAwaiter(NEVER_POLLS_MS)
    const sockets: Socket[] = []
    const server = createServer((socket) => void sockets.push(socket.on('error', () => undefined)))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => {
      for (const socket of sockets) socket.destroy()
      server.close()
    })
    const { port } = server.address() as { port: number }
    listener = listenForOutcomes({
      connectionString: `postgres://nobody@127.0.0.1:${port}/none`,
      onOutcome: () => undefined,
      onError: (error) => listenerErrors.push(error),
    })
    await expect.poll(() => sockets.length).toBeGreaterThan(1)
    expect(listenerErrors).not.toEqual([])
    expect(await withDeadline(PATIENCE_MS, listener.close(), () => 'late')).toBeUndefined()
  })

  it('keeps nothing of the attempts to reach a server', async () => {
    createAwaiter(NEVER_POLLS_MS)
    const abortController = vi.spyOn(globalThis, 'AbortController')
    onTestFinished(() => abortController.mockRestore())
    listener = listenForOutcomes({
      connectionString: 'postgres://nobody@127.0.0.1:1/none',
      onOutcome: () => undefined,
      onError: (error) => listenerErrors.push(error),
    })
    const closing = abortController.mock.results[0]?.value as AbortController
    await expect.poll(() => listenerErrors.length).toBeGreaterThan(3)
    expect(getEventListeners(closing.signal, 'abort').length).toBeLessThanOrEqual(1)
  })

  it('a closed listener leaves no connection behind', async () => {
    createAwaiter(NEVER_POLLS_MS)
    await listen()
    await listener?.close()
    await expect.poll(countListeners).toBe(0)
  })
})

describe('an aborted wait', () => {
  it('an aborted wait returns the job’s current state and is removed', async () => {
    createAwaiter(QUICK_POLL_MS)
    const job = await jobInState(ledger, 'generating')
    const stop = new AbortController()
    const waiting = awaiter.wait(job.id, stop.signal)
    await fencedWrites.sealResult.run(ledger, job)
    stop.abort()
    expect(await waiting).toEqual({ state: 'generated' })
    await expectNothingIsPolled()
  })

  it('a wait that was aborted before it began returns the job’s current state', async () => {
    createAwaiter(NEVER_POLLS_MS)
    const { id } = await jobInState(ledger, 'generating')
    expect(await awaiter.wait(id, AbortSignal.abort())).toEqual({ state: 'generating' })
  })

  it('an aborted wait leaves the other waiters of its job waiting', async () => {
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
