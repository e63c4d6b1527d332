import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, test, vi } from 'vitest'
import { walkFrames } from '#mp3/walk-frames.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import { createRateBuckets } from '../../../api/limits/rate-buckets.ts'
import { createDecodingLimiter, type DecodingLimiter } from '../../../api/limits/rate-limits.ts'
import type { DecodeAudio, Decoded } from '../../../api/request/audio/decode-with-ffmpeg.ts'
import { createDecoderQueue } from '../../../api/request/audio/decoder-queue.ts'
import { createMp3Inspector, type InspectionOutcome, isOfCaller } from '../../../api/request/audio/inspect-mp3.ts'
import { createInspectionCache } from '../../../api/request/audio/inspection-cache.ts'
import { planDecode } from '../../../api/request/audio/plan-decode.ts'
import { UNSHARED_VERDICTS } from '../../../api/request/audio/shared-verdicts.ts'
import { shrinkAdvice, splitAdvice } from '../../../shared/audio/conversion.ts'
import { AppError } from '../../../shared/errors/app-error.ts'
import {
  generatedDurationMs,
  generateFrames,
  generateInfoFrame,
  generateMp3,
  joinBytes,
} from '../../support/media/mp3-generator.ts'
import { generateId3v1, generateId3v2 } from '../../support/media/tag-generator.ts'

const silent: Logger = { info: () => undefined, warn: () => undefined, error: () => undefined }
const clip = { durationMs: 500 }
const agrees: Decoded = { outcome: 'agrees', decodedSamples: 1 }
const limits = { maximumBytes: 26_214_400, minimumDurationMs: 100, maximumDurationMs: 3_600_000 }
function inspectorWith(
  decode: DecodeAudio | undefined,
  options: {
    concurrency?: number
    maximumWaiting?: number
    limitDecoding?: DecodingLimiter
    hasPriority?: boolean
  } = {},
) {
  const reasons: string[] = []
  const clock = { ms: 1 }
  const cache = createInspectionCache<InspectionOutcome>({
    maximumEntries: 100,
    timeToLiveMs: 1000,
    isOfCaller,
    now: () => clock.ms,
  })
  const inspector = createMp3Inspector({
    decode,
    cache,
    verdicts: UNSHARED_VERDICTS,
    limitDecoding: options.limitDecoding ?? (() => undefined),
    concurrency: options.concurrency ?? 2,
    maximumWaiting: options.maximumWaiting ?? 4,
    onUnavailable: (reason) => reasons.push(reason),
  })
  const inspect = (audio: Uint8Array, sha256: string, param = 'file') =>
    inspector.inspect(
      { audio, sha256, walk: walkFrames(audio) },
      {
        param,
        client: ['192.0.2.1'],
        hasPriority: options.hasPriority ?? true,
        limits,
      },
    )
  return { inspect, reasons, clock }
}
async function errorOf(inspection: Promise<unknown>): Promise<AppError> {
  return await inspection.then(
    () => Promise.reject(new Error('was accepted')),
    (error: unknown) => error as AppError,
  )
}
/** Returns the length of the parts that an advice makes. */
function seconds(advice: string): number {
  return Number(/-segment_time (\d+) /.exec(advice)?.[1])
}
/** Creates a decoder whose decodes end only when released. */
function blockedDecoder() {
  const releases: (() => void)[] = []
  const counts = { active: 0, most: 0 }
  const decode = vi.fn<DecodeAudio>(async () => {
    counts.active++
    counts.most = Math.max(counts.most, counts.active)
    await new Promise<void>((release) => releases.push(release))
    counts.active--
    return agrees
  })
  const releaseAll = async () => {
    while (counts.active > 0 || releases.length > 0) {
      releases.shift()?.()
      await new Promise((resume) => setImmediate(resume))
    }
  }
  return { decode, releaseAll, most: () => counts.most }
}
function planOf(audio: Uint8Array) {
  const walk = walkFrames(audio)
  if (walk.outcome !== 'mp3') throw new Error(walk.found)
  return planDecode(audio, walk)
}
const HOUR_MS = 3_600_000
/** Creates decodes that end when the test finishes them, and records the order in which they start. */
function queueWith({ concurrency = 2, maximumWaiting = 32 } = {}) {
  let nowMs = 0
  const queue = createDecoderQueue({ concurrency, maximumWaiting }, () => nowMs)
  const started: string[] = []
  const ends = new Map<string, () => void>()
  return {
    started,
    load: queue.load,
    retryAfterSeconds: queue.retryAfterSeconds,
    wait: (ms: number) => {
      nowMs += ms
    },
    decode: (name: string, durationMs: number, client: string, hasPriority = false) =>
      queue.run({ client: [client], hasPriority }, durationMs, () => {
        started.push(name)
        return new Promise<void>((resolve) => ends.set(name, resolve))
      }),
    finish: async (name: string) => {
      ends.get(name)?.()
      await nextTurn()
    },
  }
}

describe('inspecting an upload', () => {
  test('returns the duration of the walk when the decoder agrees', async () => {
    const { inspect } = inspectorWith(async () => agrees)
    const inspection = await inspect(generateMp3(clip), 'a')
    expect(inspection).toEqual({
      durationMs: generatedDurationMs(clip),
      parts: [{ sampleRate: 44_100, samples: 20 * 1152 }],
    })
  })

  test('rejects too many bytes with both numbers and the field, before reading them', async () => {
    const { inspect } = inspectorWith(async () => agrees)
    const error = await errorOf(inspect(new Uint8Array(26_214_401), 'a', 'audio_base64'))
    expect(error).toMatchObject({ code: 'audio_too_large', param: 'audio_base64' })
    expect(error.message).toMatch(
      /^The audio has 26,214,401 bytes; the limit is 26,214,400\. Make it smaller, .*\. The client command "farebox transcribe" does it by itself; otherwise run: ffmpeg -i input /,
    )
  })

  test('rejects audio that is too long with both durations, without decoding', async () => {
    const decode = vi.fn<DecodeAudio>(async () => agrees)
    const { inspect } = inspectorWith(decode)
    const long = { durationMs: 3_600_001, sampleRate: 44_100, bitrate: 32 }
    const error = await errorOf(inspect(generateMp3(long), 'a', 'file'))
    expect(error).toMatchObject({ code: 'audio_too_long', param: 'file' })
    expect(error.message).toMatch(
      /^The audio lasts 3,600,014 ms; the limit is 3,600,000 ms\. Split it, .*\. The client command "farebox transcribe" does .*: ffmpeg -i input.mp3 .* -segment_time 3000 /,
    )
    expect(decode).not.toHaveBeenCalled()
  })

  test.each([1, 2, 3])(
    'rejects %i frames of 26 ms as too short with both durations, without decoding',
    async (frames) => {
      const decode = vi.fn<DecodeAudio>(async () => agrees)
      const { inspect } = inspectorWith(decode)
      const error = await errorOf(inspect(generateFrames(frames), 'a', 'file'))
      expect(error).toMatchObject({ code: 'audio_too_short', param: 'file' })
      expect(error.message).toMatch(new RegExp(`^The audio lasts ${[27, 53, 79][frames - 1]} ms; the least is 100 ms,`))
      expect(decode).not.toHaveBeenCalled()
      expect(await inspect(generateFrames(4), 'b')).toMatchObject({ durationMs: 105 })
    },
  )

  test('accepts exactly an hour', async () => {
    const { inspect } = inspectorWith(async () => agrees)
    const hour = generateMp3({ durationMs: 3_600_000, sampleRate: 48_000, bitrate: 32 })
    expect((await inspect(hour, 'a')).durationMs).toBe(3_600_000)
  })

  test('names the format of an upload that is not an MP3', async () => {
    const { inspect } = inspectorWith(async () => agrees)
    const error = await errorOf(inspect(new TextEncoder().encode('fLaC and so on'), 'a', 'file'))
    expect(error).toMatchObject({ code: 'unsupported_audio', param: 'file' })
    expect(error.message).toBe(
      'The upload is not a decodable MP3: found a FLAC stream. Convert the recording to MP3. The client command "farebox transcribe" does it by itself; otherwise run: ffmpeg -i input -vn -ac 1 -b:a 48k output.mp3',
    )
  })

  test.each([
    ['%PDF-1.7', 'a PDF document', 'Send the bytes of an MP3 recording.'],
    // ffmpeg fails on these.
    ['ID3\x04\0\0\0\x7f\x7f\x7f', 'an ID3 tag whose size runs past the file', 'Send the bytes of an MP3 recording.'],
    [
      '{"hello": 1}',
      'no MPEG audio frames',
      'If it is a recording, convert it to MP3. The client command "farebox transcribe" does it by itself; otherwise run: ffmpeg -i input -vn -ac 1 -b:a 48k output.mp3',
    ],
  ])('promises no conversion for an upload that may be no recording: %j', async (content, found, advice) => {
    const { inspect } = inspectorWith(async () => agrees)
    const error = await errorOf(inspect(Buffer.from(content, 'latin1'), 'a', 'file'))
    expect(error.message).toBe(`The upload is not a decodable MP3: found ${found}. ${advice}`)
  })

  test('splits into parts below the limits of the catalog, whichever is reached first', () => {
    expect(seconds(splitAdvice({ maximumDurationMs: 600_000 }))).toBe(500)
    expect(seconds(shrinkAdvice(limits))).toBe(3000)
    expect(seconds(shrinkAdvice({ maximumBytes: 6_000_000, maximumDurationMs: 3_600_000 }))).toBe(833)
    expect(seconds(shrinkAdvice({ maximumBytes: 26_214_400, maximumDurationMs: 60_000 }))).toBe(50)
  })

  test('rejects an upload that decodes to another duration than its frames', async () => {
    const { inspect } = inspectorWith(async () => ({ outcome: 'disagrees', decodedSamples: 441_000, stopped: true }))
    const error = await errorOf(inspect(generateMp3(clip), 'a'))
    expect(error.code).toBe('unsupported_audio')
    expect(error.message).toContain('amount to 523 ms, but it decodes to more than 10,000 ms.')
  })

  test('distinguishes an undecodable upload from an unavailable decoder', async () => {
    const fails = inspectorWith(async () => ({ outcome: 'undecodable', reason: 'secret path' }))
    expect(await errorOf(fails.inspect(generateMp3(clip), 'a'))).toMatchObject({
      code: 'unsupported_audio',
      message: 'The upload is not a decodable MP3: the decoder fails on it. Encode it again from its original.',
    })
    for (const { inspect, reasons } of [
      inspectorWith(async () => ({ outcome: 'unavailable', reason: 'no such file' })),
      inspectorWith(undefined),
    ]) {
      const error = await errorOf(inspect(generateMp3(clip), 'a'))
      expect(error.code).toBe('audio_inspection_unavailable')
      expect(error.message).not.toContain('file')
      expect(reasons).toHaveLength(1)
    }
  })
})

describe('limiting concurrent decodes', () => {
  test('limits running and waiting decodes and rejects the rest with a retry time', async () => {
    const { decode, releaseAll, most } = blockedDecoder()
    const { inspect } = inspectorWith(decode, { concurrency: 2, maximumWaiting: 4 })
    const all = Array.from({ length: 20 }, (_, index) =>
      inspect(generateMp3({ ...clip, seed: `${index}` }), `${index}`),
    )
    const settled = Promise.allSettled(all)
    await new Promise((resume) => setImmediate(resume))
    await releaseAll()
    const results = await settled
    const refused = results.filter((result) => result.status === 'rejected').map((result) => result.reason as AppError)
    expect(refused).toHaveLength(15)
    for (const error of refused) {
      expect(error.code).toBe('overloaded')
      expect(error.retryAfterSeconds).toBeGreaterThanOrEqual(1)
    }
    expect(most()).toBe(2)
    expect(decode).toHaveBeenCalledTimes(5)
  })

  test('rejects what the walk rejects, whatever the number of waiting decodes', async () => {
    const { decode, releaseAll } = blockedDecoder()
    const { inspect } = inspectorWith(decode, { concurrency: 1, maximumWaiting: 0 })
    const first = inspect(generateMp3(clip), 'a')
    expect(await errorOf(inspect(new Uint8Array(10), 'b'))).toMatchObject({ code: 'unsupported_audio' })
    await releaseAll()
    await first
  })

  test('decodes twenty identical concurrent uploads once and names each request’s own field in errors', async () => {
    const { decode, releaseAll } = blockedDecoder()
    const { inspect } = inspectorWith(decode, { concurrency: 1, maximumWaiting: 0 })
    const all = Promise.all(Array.from({ length: 20 }, () => inspect(generateMp3(clip), 'same')))
    await new Promise((resume) => setImmediate(resume))
    await releaseAll()
    expect(new Set((await all).map(({ durationMs }) => durationMs))).toEqual(new Set([523]))
    expect(decode).toHaveBeenCalledTimes(1)
    const fields = ['file', 'audio_base64', 'file']
    const errors = await Promise.all(fields.map((field) => errorOf(inspect(new Uint8Array(9), 'bad', field))))
    expect(errors.map((error) => error.param)).toEqual(fields)
  })
})

/** Limits a client to a minute of audio, and never refills. */
function limiter() {
  return createDecodingLimiter(createRateBuckets({ shared: null, logger: silent, now: () => 0 }), 1)
}

describe('limiting what is decoded without a payment', () => {
  const third = { durationMs: 20_000 }

  test('counts the decoded time of a client, and refuses more than its allowance before a decode', async () => {
    const decode = vi.fn<DecodeAudio>(async () => agrees)
    const { inspect } = inspectorWith(decode, { limitDecoding: limiter(), hasPriority: false })
    for (const name of ['a', 'b']) await inspect(generateMp3(third), name)
    // Decoded before, so it costs nothing.
    await inspect(generateMp3(third), 'a')
    const error = await errorOf(inspect(generateMp3({ durationMs: 25_000 }), 'c'))
    expect([error.code, error.retryAfterSeconds]).toEqual(['rate_limited', expect.any(Number)])
    expect(error.message).toContain('described recording')
    expect(decode).toHaveBeenCalledTimes(2)
    // What is left suffices for less.
    await inspect(generateMp3({ durationMs: 15_000 }), 'd')
  })

  test('decodes one recording that is longer than the whole allowance', async () => {
    const { inspect } = inspectorWith(async () => agrees, { limitDecoding: limiter(), hasPriority: false })
    await expect(inspect(generateMp3({ durationMs: 90_000 }), 'long')).resolves.toMatchObject({ parts: [{}] })
  })

  test('does not count the audio of known payers', async () => {
    const { inspect } = inspectorWith(async () => agrees, { limitDecoding: limiter(), hasPriority: true })
    for (let count = 0; count < 10; count++) await inspect(generateMp3(third), `paid-${count}`)
  })
})

describe('caching inspections', () => {
  test('caches acceptances and rejections for the lifetime of a challenge', async () => {
    const decode = vi.fn<DecodeAudio>(async (_audio, plan) =>
      plan.sampleRate === 44_100 ? agrees : { outcome: 'undecodable', reason: '' },
    )
    const { inspect, clock } = inspectorWith(decode)
    const bad = generateMp3({ ...clip, sampleRate: 48_000 })
    for (let repeat = 0; repeat < 3; repeat++) {
      await inspect(generateMp3(clip), 'good')
      await errorOf(inspect(bad, 'bad'))
    }
    expect(decode).toHaveBeenCalledTimes(2)
    clock.ms += 1001
    await inspect(generateMp3(clip), 'good')
    expect(decode).toHaveBeenCalledTimes(3)
  })

  test('does not cache that inspection was unavailable', async () => {
    const decode = vi.fn<DecodeAudio>(async () => agrees)
    decode.mockResolvedValueOnce({ outcome: 'unavailable', reason: 'busy' })
    const { inspect } = inspectorWith(decode)
    await errorOf(inspect(generateMp3(clip), 'a'))
    expect((await inspect(generateMp3(clip), 'a')).durationMs).toBe(523)
  })

  test('refuses only the one who has had too much decoded, of two who send a recording at once', async () => {
    const limitDecoding = vi.fn<DecodingLimiter>()
    limitDecoding.mockImplementationOnce(() => {
      throw new AppError('rate_limited', { retryAfterSeconds: 60 })
    })
    const { inspect } = inspectorWith(async () => agrees, { limitDecoding })
    const [first, second] = [inspect(generateMp3(clip), 'a'), inspect(generateMp3(clip), 'a')]
    expect((await errorOf(first)).code).toBe('rate_limited')
    expect((await second).durationMs).toBe(523)
  })

  test('caches no more inspections than its limit', async () => {
    const compute = vi.fn<() => Promise<object>>(async () => ({}))
    const cache = createInspectionCache<object>({ maximumEntries: 2, timeToLiveMs: 1000 })
    for (const key of ['a', 'b', 'c', 'a']) await cache.get(key, compute)
    expect(compute).toHaveBeenCalledTimes(4)
  })
})

describe('planning a decode', () => {
  test('expects every counted frame and the primer, to within one frame', () => {
    const plan = planOf(generateFrames(50, { sampleRate: 22_050 }))
    expect(plan).toMatchObject({
      offset: 0,
      sampleRate: 22_050,
      primerSamples: 2 * 576,
      expectedSamples: 52 * 576,
    })
    expect(plan.minimumSamples / 576).toBeCloseTo(51, 2)
    expect(plan.maximumSamples / 576).toBeCloseTo(53, 2)
  })

  test('skips leading tags and the Info frame', () => {
    const info = generateInfoFrame('Info', 1)
    const tag = generateId3v2(new Uint8Array(5000))
    expect(planOf(joinBytes(tag, info, generateFrames(9))).offset).toBe(tag.length + info.length)
  })

  test('creates a primer of two silent frames in the file’s format without changing the upload', () => {
    for (const options of [{ crc: true }, { sampleRate: 8_000, mode: 'mono' as const }]) {
      const audio = Buffer.from(generateFrames(5, options))
      const before = Buffer.from(audio)
      const { primer } = planOf(audio)
      expect(audio.equals(before)).toBe(true)
      expect(walkFrames(primer)).toMatchObject({ outcome: 'mp3', frameCount: 2, unrecognizedBytes: 0 })
      expect(primer.subarray(4, primer.length / 2).every((byte) => byte === 0)).toBe(true)
    }
  })

  test('allows one frame more and four frames fewer for each discontinuity', () => {
    const frames = generateFrames(20)
    const plan = planOf(joinBytes(frames, generateFrames(20, { mode: 'mono' }), frames))
    expect(plan.maximumSamples - plan.expectedSamples).toBe(3 * 1152)
    expect(plan.expectedSamples - plan.minimumSamples).toBe(9 * 1152)
  })

  test('allows for false syncs in proportion to the bytes that are not frames', () => {
    const frames = generateFrames(20)
    const plan = planOf(joinBytes(frames, generateId3v2(new Uint8Array(20_480 - 10)), frames))
    expect(plan.maximumSamples - plan.expectedSamples).toBeCloseTo(2 * 1152 + 10 * 0.035 * 44_100, -1)
    const tagged = planOf(joinBytes(frames, generateId3v1()))
    expect(tagged.maximumSamples - tagged.expectedSamples).toBeCloseTo(1152 + 0.035 * 44_100, -1)
  })

  test.each([1, 2, 50, 2000])('expects at least half of %i frames, however long a tag is', (count) => {
    for (const tagBytes of [0, 1000, 25_000_000]) {
      const plan = planOf(joinBytes(generateFrames(count), generateId3v2(new Uint8Array(tagBytes))))
      expect(plan.minimumSamples - plan.primerSamples).toBeGreaterThanOrEqual((count * 1152) / 2)
      expect(plan.minimumSamples).toBeLessThanOrEqual(plan.expectedSamples)
    }
  })

  test('compares joined files at the rate of the longest', () => {
    const audio = joinBytes(generateFrames(100, { sampleRate: 8_000 }), generateFrames(50, { sampleRate: 48_000 }))
    // 7.2 s and 1.2 s, and 144 ms of primer.
    expect(planOf(audio)).toMatchObject({ sampleRate: 8_000, expectedSamples: 68_352 })
  })
})

describe('the queue of the decoder', () => {
  test('a short upload does not wait for the long ones of another client', async () => {
    const { decode, started } = queueWith()
    for (let index = 0; index < 12; index += 1) void decode(`hour ${index}`, HOUR_MS, '192.0.2.1')
    void decode('clip', 653, '192.0.2.2')
    await nextTurn()
    expect(started).toEqual(['hour 0', 'clip'])
  })

  test('the shortest upload is decoded next', async () => {
    const { decode, started, finish } = queueWith({ concurrency: 1 })
    void decode('first', 1000, '192.0.2.1')
    for (const [name, durationMs] of [
      ['long', HOUR_MS],
      ['medium', 60_000],
      ['short', 2000],
    ] as const)
      void decode(name, durationMs, '192.0.2.1')
    for (const name of ['first', 'short', 'medium', 'long']) await finish(name)
    expect(started).toEqual(['first', 'short', 'medium', 'long'])
  })

  test('clients take turns with uploads of the same length', async () => {
    const { decode, started, finish } = queueWith({ concurrency: 2 })
    for (const name of ['a1', 'a2', 'a3', 'a4']) void decode(name, 60_000, '192.0.2.1')
    for (const name of ['b1', 'b2']) void decode(name, 60_000, '192.0.2.2')
    for (const name of ['a1', 'a2', 'b1']) await finish(name)
    expect(started).toEqual(['a1', 'a2', 'b1', 'a3', 'b2'])
  })

  test('new uploads overtake an hour of audio for at most 36 seconds', async () => {
    const { decode, started, finish, wait } = queueWith({ concurrency: 1 })
    void decode('first', 1000, '192.0.2.1')
    void decode('hour', HOUR_MS, '192.0.2.1')
    wait(30_000)
    void decode('early', 1000, '192.0.2.2')
    await finish('first')
    wait(7000)
    void decode('late', 1000, '192.0.2.2')
    await finish('early')
    await finish('hour')
    expect(started).toEqual(['first', 'early', 'hour', 'late'])
  })

  test('one client takes at most three quarters of the waiting slots that are open to it', async () => {
    const { decode, load, retryAfterSeconds } = queueWith({ maximumWaiting: 32 })
    const refusals: unknown[] = []
    for (let index = 0; index < 40; index += 1)
      decode(`hour ${index}`, HOUR_MS, '192.0.2.1').catch((error: unknown) => refusals.push(error))
    await nextTurn()
    expect(load()).toEqual({ busy: 1, waiting: 18, slots: 2 })
    expect(refusals).toHaveLength(21)
    expect(refusals[0]).toMatchObject({ code: 'overloaded', retryAfterSeconds: 19 })
    void decode('other hour', HOUR_MS, '192.0.2.2')
    expect(load().waiting).toBe(19)
    // A decoder is left for short uploads, so admission refuses nobody before the upload.
    expect(retryAfterSeconds({ client: ['192.0.2.1'], hasPriority: false })).toBeNull()
  })

  test('the last quarter of the waiting slots is kept for payers who have paid before', async () => {
    const { decode, retryAfterSeconds } = queueWith({ concurrency: 1, maximumWaiting: 4 })
    for (const client of ['192.0.2.1', '192.0.2.2', '192.0.2.3', '192.0.2.4'])
      void decode(client, 1000, client).catch(() => undefined)
    const newcomer = { client: ['192.0.2.9'] }
    expect(retryAfterSeconds({ ...newcomer, hasPriority: false })).toBeGreaterThanOrEqual(1)
    expect(retryAfterSeconds({ ...newcomer, hasPriority: true })).toBeNull()
  })
})
