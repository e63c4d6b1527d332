import { describe, expect, it } from 'vitest'
import { speechModel, transcriptionModel } from '#shared/catalog/published-models.ts'
import {
  imageBytes,
  MAXIMUM_REMOTE_IMAGE_BYTES,
  remoteImageBytes,
  speechBytes,
  textBytes,
  transcriptionBytes,
} from '../../../workers/executions/held-bytes.ts'
import { createJobMemory, largestJobBytes, type MemoryReservation } from '../../../workers/job/job-memory.ts'
import { memorySettings } from '../../../workers/job/memory-settings.ts'

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

it('the smallest setting has room for the largest request of each kind', () => {
  const setting = memorySettings.MAXIMUM_JOB_MEGABYTES
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
