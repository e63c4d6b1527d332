import { describe, expect, it } from 'vitest'
import { speechModel, transcriptionModel } from '#shared/catalog/published-models.ts'
import type { ErrorCode } from '#shared/errors/error-codes.ts'
import { JOB_STATES, type JobState } from '#shared/jobs/job.ts'
import { parseQueueUrl } from '#shared/jobs/queue-url.ts'
import { isUnfinished, mayMove, statesBefore } from '#shared/jobs/transitions.ts'
import { respond } from '../../api/paid-request/answer/respond.ts'
import { settingsSchema } from '../../workers/config.ts'
import {
  imageBytes,
  MAXIMUM_REMOTE_IMAGE_BYTES,
  remoteImageBytes,
  speechBytes,
  textBytes,
  transcriptionBytes,
} from '../../workers/executions/held-bytes.ts'
import { createJobMemory, largestJobBytes, type MemoryReservation } from '../../workers/job/job-memory.ts'
import { createJobSlots } from '../../workers/job/job-slots.ts'

/** Returns the error of a failed job, which needs no dependency. */
async function errorOf(failureCode: ErrorCode): Promise<unknown> {
  try {
    return await respond({} as never, { state: 'failed', failureCode }, { operation: {} as never, isNew: true })
  } catch (error) {
    return error
  }
}
const node = (host: string, port: number) => ({ host, port })
/** Starts a run that ends when the test says so. */
function startRun(slots: ReturnType<typeof createJobSlots>) {
  const work = Promise.withResolvers<void>()
  const started = Promise.withResolvers<() => void>()
  const settled = slots.run(async (releaseSlot) => {
    started.resolve(releaseSlot)
    await work.promise
  })
  return { release: async () => (await started.promise)(), end: work.resolve, fail: work.reject, settled }
}
/** Returns whether a promise settles without anything else happening. */
async function isSettled(promise: Promise<void>): Promise<boolean> {
  const turn = new Promise<false>((resolve) => setImmediate(resolve, false))
  return await Promise.race([promise.then(() => true), turn])
}
const silent = { error: () => undefined }
/** Repeated here on purpose, so that a change of the table is deliberate. */
const MOVES: readonly (readonly [JobState, JobState])[] = [
  ['accepted', 'generating'],
  ['accepted', 'failed'],
  ['accepted', 'review'],
  ['generating', 'generating'],
  ['generating', 'generated'],
  ['generating', 'failed'],
  ['generating', 'review'],
  ['generated', 'settling'],
  ['generated', 'settlement_failed'],
  ['generated', 'review'],
  ['settling', 'completed'],
  ['settling', 'settlement_failed'],
  ['settling', 'review'],
  ['failed', 'accepted'],
  ['settlement_failed', 'generated'],
  ['settlement_failed', 'accepted'],
  ['settlement_failed', 'settling'],
]
const PAIRS = JOB_STATES.flatMap((from) => JOB_STATES.map((to) => [from, to] as const))
const MEBIBYTE = 1024 * 1024
/** 80 MiB, of which small jobs have 10 to themselves and one job can have 70. */
const LIMIT = 80 * MEBIBYTE
const LARGEST = 70 * MEBIBYTE
const NEVER = new AbortController().signal
function memoryOf(limit = LIMIT) {
  const memory = createJobMemory(limit)
  /** The sizes that were granted, in MiB, in order. */
  const granted: number[] = []
  return {
    memory,
    granted,
    ask: (megabytes: number, signal = NEVER): Promise<MemoryReservation | null> =>
      memory.reserve(megabytes * MEBIBYTE, signal).then((reservation) => {
        if (reservation) granted.push(megabytes)
        return reservation
      }),
  }
}
/** Lets all settled promises run. */
const settle = () => new Promise((resolve) => setImmediate(resolve))
async function given(reservation: Promise<MemoryReservation | null>): Promise<MemoryReservation> {
  const got = await reservation
  if (!got) throw new Error('nothing was reserved')
  return got
}

describe('the answer to a job', () => {
  it('a job that failed with a 429 states when to retry', async () => {
    expect(await errorOf('uncharged_work_limit')).toMatchObject({ code: 'uncharged_work_limit', retryAfterSeconds: 5 })
    expect(await errorOf('provider_rejected')).toMatchObject({
      code: 'provider_rejected',
      retryAfterSeconds: undefined,
    })
  })
})

describe('parseQueueUrl', () => {
  it.each([
    ['redis://h', { kind: 'redis', node: node('h', 6379), database: 0, tls: false, shown: 'redis://h' }],
    ['redis://h:1/2', { kind: 'redis', node: node('h', 1), database: 2, tls: false, shown: 'redis://h:1/2' }],
    [
      'rediss://me:p%40ss@h:1',
      {
        kind: 'redis',
        node: node('h', 1),
        database: 0,
        tls: true,
        username: 'me',
        password: 'p@ss',
        shown: 'rediss://h:1',
      },
    ],
    [
      'redis://:secret@[::1]:7',
      { kind: 'redis', node: node('::1', 7), database: 0, tls: false, password: 'secret', shown: 'redis://[::1]:7' },
    ],
    [
      'redis+cluster://:secret@a:1,b:2',
      {
        kind: 'cluster',
        nodes: [node('a', 1), node('b', 2)],
        tls: false,
        password: 'secret',
        shown: 'redis+cluster://a:1,b:2',
      },
    ],
    ['rediss+cluster://a', { kind: 'cluster', nodes: [node('a', 6379)], tls: true, shown: 'rediss+cluster://a' }],
    [
      'redis+sentinel://a:1,b/main/3',
      {
        kind: 'sentinel',
        sentinels: [node('a', 1), node('b', 26_379)],
        masterName: 'main',
        database: 3,
        tls: false,
        shown: 'redis+sentinel://a:1,b/main/3',
      },
    ],
    [
      'postgresql://me:secret@h:5432/queue?sslmode=require',
      {
        kind: 'postgres',
        url: 'postgresql://me:secret@h:5432/queue?sslmode=require',
        shown: 'postgresql://h:5432/queue',
      },
    ],
  ])('parses %s', (url, expected) => {
    expect(parseQueueUrl(url)).toEqual(expected)
  })

  it.each([
    '',
    'h:6379',
    'http://h',
    'amqp://me:secret@h',
    'redis://',
    'redis://a,b',
    'redis://me:secret@h:6379x',
    'redis://me:secret@h/one',
    'redis://me:secret@h/1/2',
    'redis+cluster://me:secret@h/1',
    'redis+sentinel://me:secret@h',
    'redis+sentinel://me:secret@h/main/zero',
    'redis+cluster://me:secret@a,,b',
  ])('rejects %j without quoting its password', (url) => {
    expect(() => parseQueueUrl(url)).toThrow(RangeError)
    expect(() => parseQueueUrl(url)).not.toThrow(/secret/)
  })
})

describe('slots of jobs', () => {
  it('frees the place of a job that only waits, and drains once the job has ended', async () => {
    const slots = createJobSlots(silent)
    const run = startRun(slots)
    await run.release()
    await run.release()
    await run.settled
    const drained = slots.drain(3_600_000)
    expect(await isSettled(drained)).toBe(false)
    run.end()
    await drained
    await slots.drain(3_600_000)
  })

  it('stops draining at the deadline', async () => {
    const slots = createJobSlots(silent)
    const run = startRun(slots)
    await run.release()
    await run.settled
    await slots.drain(1)
  })

  it('keeps the place of a job that would be one too many without one', async () => {
    const slots = createJobSlots(silent, 1)
    const [first, second] = [startRun(slots), startRun(slots)]
    await first.release()
    await first.settled
    await second.release()
    expect(await isSettled(second.settled)).toBe(false)
    second.end()
    await second.settled
  })

  it('rejects for a job that fails with its place, and logs the failure of one without', async () => {
    const logged: unknown[] = []
    const slots = createJobSlots({ error: (_, fields) => void logged.push(fields?.error) })
    const [held, released] = [startRun(slots), startRun(slots)]
    held.fail(new Error('with its place'))
    await expect(held.settled).rejects.toThrow('with its place')
    await released.release()
    await released.settled
    released.fail(new Error('without'))
    await slots.drain(3_600_000)
    expect(logged).toEqual([new Error('without')])
  })
})

describe('job transitions', () => {
  it.each(PAIRS)('a job may move from %s to %s only when the table lists it', (from, to) => {
    expect(mayMove(from, to)).toBe(MOVES.some(([one, other]) => one === from && other === to))
  })

  it.each(PAIRS)('statesBefore lists %s before %s exactly when that move is allowed', (from, to) => {
    expect(statesBefore(to).includes(from)).toBe(mayMove(from, to))
  })

  it('a job never leaves completed or review', () => {
    for (const to of JOB_STATES) expect([mayMove('completed', to), mayMove('review', to)]).toEqual([false, false])
  })

  it('a job completes from settling only, and settles from generated or when its failed settlement succeeds', () => {
    expect([statesBefore('completed'), statesBefore('settling')]).toEqual([
      ['settling'],
      ['generated', 'settlement_failed'],
    ])
  })

  it('a job reaches another provider call only by a new acceptance, or directly from the previous call', () => {
    expect(statesBefore('generating')).toEqual(['accepted', 'generating'])
    expect(statesBefore('accepted')).toEqual(['failed', 'settlement_failed'])
  })

  it('only accepted, generating, generated and settling jobs are unfinished', () => {
    expect(JOB_STATES.filter(isUnfinished)).toEqual(['accepted', 'generating', 'generated', 'settling'])
  })
})

describe('the memory of jobs', () => {
  it('lets a job wait until enough memory is returned, in the order of arrival', async () => {
    const { ask, granted } = memoryOf()
    const first = await given(ask(40))
    const second = await given(ask(30))
    void ask(20)
    void ask(21)
    await settle()
    expect(granted).toEqual([40, 30])
    second.release()
    await settle()
    expect(granted).toEqual([40, 30, 20])
    first.release()
    await settle()
    expect(granted).toEqual([40, 30, 20, 21])
  })

  it('lets nothing of its size overtake a huge job, however little it needs', async () => {
    const { ask, granted } = memoryOf()
    const first = await given(ask(30))
    void ask(70)
    for (let index = 0; index < 5; index += 1) void ask(5)
    await settle()
    expect(granted).toEqual([30])
    first.release()
    await settle()
    expect(granted).toEqual([30, 70])
  })

  it('keeps an eighth for small jobs, which a huge one never blocks and which do not delay it', async () => {
    const { ask, granted, memory } = memoryOf()
    await given(ask(50))
    void ask(60)
    const small = [await given(ask(4)), await given(ask(4)), await given(ask(2))]
    void ask(1)
    await settle()
    expect([granted, memory.current().waitingJobs]).toEqual([[50, 4, 4, 2], 2])
    small[0]?.release()
    await settle()
    expect(granted).toEqual([50, 4, 4, 2, 1])
  })

  it('lets small jobs use all memory while no large one waits', async () => {
    const { ask, memory } = memoryOf()
    for (let index = 0; index < 19; index += 1) await given(ask(4))
    expect(memory.current().reservedBytes).toBe(19 * 4 * MEBIBYTE)
  })

  it('gives a job that needs more than one can have all of that, so that none is impossible', async () => {
    const { ask, memory } = memoryOf()
    const huge = await given(ask(1000))
    expect(memory.current().reservedBytes).toBe(LARGEST)
    expect(huge.extendTo(2000 * MEBIBYTE)).toBe(true)
    huge.release()
    expect(memory.current().reservedBytes).toBe(0)
  })

  it('extends a reservation only into memory that no other job waits for', async () => {
    const { ask, memory } = memoryOf()
    const growing = await given(ask(10))
    expect(growing.extendTo(60 * MEBIBYTE)).toBe(true)
    expect(growing.extendTo(71 * MEBIBYTE)).toBe(true)
    expect(memory.current().reservedBytes).toBe(LARGEST)
    growing.shrinkTo(20 * MEBIBYTE)
    const other = await given(ask(45))
    expect(growing.extendTo(30 * MEBIBYTE)).toBe(false)
    void ask(30)
    expect(growing.extendTo(21 * MEBIBYTE)).toBe(false)
    other.release()
    await settle()
    expect(memory.current().reservedBytes).toBe(50 * MEBIBYTE)
  })

  it('returns everything, once, when a reservation is released twice', async () => {
    const { ask, memory } = memoryOf()
    const one = await given(ask(3))
    one.extendTo(20 * MEBIBYTE)
    const two = await given(ask(30))
    one.release()
    one.release()
    expect(memory.current().reservedBytes).toBe(30 * MEBIBYTE)
    two.release()
    expect(memory.current().reservedBytes).toBe(0)
  })

  it('ends the wait of a job whose lease is lost, and serves those behind it', async () => {
    const { ask, granted } = memoryOf()
    await given(ask(40))
    const lost = new AbortController()
    const blocked = ask(60, lost.signal)
    void ask(30)
    await settle()
    lost.abort()
    expect(await blocked).toBeNull()
    await settle()
    expect(granted).toEqual([40, 30])
  })

  it('ends a wait that takes too long', async () => {
    const memory = createJobMemory(LIMIT, { longestWaitMs: 1 })
    await memory.reserve(LARGEST, NEVER)
    expect(await memory.reserve(LARGEST, NEVER)).toBeNull()
    expect(memory.current()).toMatchObject({ waitingJobs: 0, longestWaitMs: 0 })
  })

  it('lets no job wait in a process that is stopping', async () => {
    const { ask, memory } = memoryOf()
    await given(ask(70))
    const waiting = ask(50)
    memory.stopWaiting()
    expect(await waiting).toBeNull()
    expect(await ask(50)).toBeNull()
  })

  it('reports how long the first job has waited', async () => {
    let now = 1000
    const memory = createJobMemory(LIMIT, { now: () => now })
    await memory.reserve(LARGEST, NEVER)
    void memory.reserve(LARGEST, NEVER)
    now += 500
    void memory.reserve(LARGEST, NEVER)
    now += 500
    expect(memory.current()).toMatchObject({ waitingJobs: 2, longestWaitMs: 1000, limitBytes: LIMIT })
  })
})

describe('the memory that jobs may take', () => {
  it('the smallest setting has room for the largest request of each kind', () => {
    const setting = settingsSchema.shape.MAXIMUM_JOB_MEGABYTES
    expect(setting.safeParse('319').success).toBe(false)
    const room = largestJobBytes(setting.parse('320') * MEBIBYTE)
    const longest = { requestBytes: 40 * MEBIBYTE, terms: { maximum_output_tokens: 65_536 } }
    const { maximumAudioBytes: bytes, maximumAudioDurationMs: duration_ms } = transcriptionModel
    const details = { timestamps: 'character', diarize: true, tag_audio_events: true } as const
    for (const needed of [
      textBytes(longest) + remoteImageBytes(MAXIMUM_REMOTE_IMAGE_BYTES),
      transcriptionBytes({ sha256: '', bytes, duration_ms }, { ...details, response_format: 'verbose_json' }),
      imageBytes('b64_json'),
      speechBytes(2 * speechModel.maximumCharacters),
    ])
      expect(needed).toBeLessThanOrEqual(room)
  })
})
