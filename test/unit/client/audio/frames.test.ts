import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { walkFrames } from '#mp3/walk-frames.ts'
import { boundedCharge } from '#shared/pricing/bounded-charge.ts'
import { treatmentOf } from '../../../../client/audio/choose-treatment.ts'
import {
  type FrameTable,
  framesBetween,
  frameTableOf,
  lastFrameWithin,
  timeOfFrame,
} from '../../../../client/audio/frame-table.ts'
import { readHeaderFrame } from '../../../../client/audio/header-frame.ts'
import { bitRateFor, longestAtMinimumMs } from '../../../../client/audio/limits.ts'
import { buildPack } from '../../../../client/audio/pack/prepare-packs.ts'
import { cutRecording, cuttable } from '../../../../client/audio/parts/cut-recording.ts'
import { silentFrameLike } from '../../../../client/audio/silent-frames.ts'
import { statedMs } from '../../../../client/audio/stated-length.ts'
import {
  generateFrames,
  generateInfoFrame,
  generateMp3,
  joinBytes,
  SAMPLE_RATES,
  STEREO_MODES,
} from '../../../support/media/mp3-generator.ts'
import { generateId3v1, generateId3v2 } from '../../../support/media/tag-generator.ts'

const BYTE_RATE = 32_000
function wav(dataBytes: number, { between = '', sound = 40 } = {}): Uint8Array {
  const format = Buffer.alloc(24)
  format.write('fmt ')
  format.writeUInt32LE(16, 4)
  format.writeUInt32LE(BYTE_RATE, 16)
  const list = Buffer.alloc(between === '' ? 0 : 8 + between.length + (between.length % 2))
  if (between !== '') {
    list.write('LIST')
    list.writeUInt32LE(between.length, 4)
    list.write(between, 8)
  }
  const data = Buffer.alloc(8 + sound)
  data.write('data')
  data.writeUInt32LE(dataBytes, 4)
  return Buffer.concat([Buffer.from('RIFF\0\0\0\0WAVE'), format, list, data])
}
const PUBLISHED = { maximumBytes: 26_214_400, maximumDurationMs: 3_600_000 }
const micro = (max: number) => fc.integer({ min: 1, max }).map((amount) => (amount / 1e6).toFixed(6))
const LIMITS = { maximumBytes: 26_214_400, maximumDurationMs: 3_600_000 }
const NO_FFMPEG = () => {
  throw new Error('ffmpeg is not needed here')
}
function walked(bytes: Uint8Array) {
  const walk = walkFrames(bytes)
  if (walk.outcome !== 'mp3') throw new Error(walk.found)
  return walk
}
function tableOf(bytes: Uint8Array): FrameTable {
  const table = frameTableOf(bytes, walked(bytes))
  if (table === undefined) throw new Error('not one stream')
  return table
}
/** Returns an MP3 whose header frame names its encoder and a delay of 576 samples. */
function withDelay(encoder: string) {
  const frame = generateInfoFrame('Info', 40)
  // Of the fields, it has frames and bytes; the delay and the padding have 12 bits each.
  frame.set(new TextEncoder().encode(encoder), 52)
  frame.set([0x24, 0x0f, 0xff], 73)
  return joinBytes(frame, generateFrames(40))
}
const claimsOf = (mp3: Uint8Array) => readHeaderFrame(mp3, walked(mp3))
const asRead = (content: Uint8Array) => ({
  path: 'a.mp3',
  bytes: content.length,
  sha256: '',
  modifiedMs: 0,
  content,
})

describe('what the header of a WAV file claims', () => {
  test('is the duration of all its sound, however much of that is there', () => {
    expect(statedMs(wav(BYTE_RATE * 6))).toBe(6000)
    expect(statedMs(wav(BYTE_RATE * 6, { between: 'odd' }))).toBe(6000)
  })

  test('is unknown when it was written to a pipe, is cut before the sound, or is no WAV file', () => {
    for (const size of [0x7f_ff_f0_00, 0xff_ff_ff_ff]) expect(statedMs(wav(size))).toBeUndefined()
    expect(statedMs(wav(BYTE_RATE).subarray(0, 36))).toBeUndefined()
    expect(statedMs(new Uint8Array(2))).toBeUndefined()
    expect(statedMs(Buffer.from('ID3 and more than forty bytes of anything else'))).toBeUndefined()
  })
})

describe('bitRateFor', () => {
  test('keeps an hour below 25 MiB', () => {
    expect(bitRateFor(PUBLISHED)).toBe(48)
  })

  test('keeps the longest recording below any limit that a bit rate of MP3 can keep', () => {
    const limits = fc.record({
      maximumBytes: fc.integer({ min: 1_000_000, max: 1_000_000_000 }),
      maximumDurationMs: fc.integer({ min: 60_000, max: 36_000_000 }),
    })
    fc.assert(
      fc.property(limits, ({ maximumBytes, maximumDurationMs }) => {
        fc.pre((maximumBytes * 8 * 0.9) / maximumDurationMs >= 8)
        const bytes = (bitRateFor({ maximumBytes, maximumDurationMs }) * maximumDurationMs) / 8
        expect(bytes).toBeLessThan(maximumBytes)
      }),
    )
  })
})

describe('longestAtMinimumMs', () => {
  test('is 148.5 s at the published prices', () => {
    expect(longestAtMinimumMs({ pricePerAudioHourUsd: '0.122', minimumChargeUsd: '0.005034' })).toBe(148_544)
  })

  test('is the last duration that the service charges the minimum, at any prices', () => {
    fc.assert(
      fc.property(micro(10_000_000), micro(20_000), (pricePerAudioHourUsd, minimumChargeUsd) => {
        const longest = longestAtMinimumMs({ pricePerAudioHourUsd, minimumChargeUsd })
        const charge = (measured: number) =>
          boundedCharge(
            [
              {
                usage: 'input_audio_ms',
                measured,
                atMost: null,
                unit: 'millisecond',
                priceUsd: pricePerAudioHourUsd,
                units: 3_600_000n,
              },
            ],
            { minimum_charge_usd: minimumChargeUsd, maximum_charge_usd: '1000' },
          )
        expect(charge(longest)).toBe(charge(0))
        expect(charge(longest + 1)).toBeGreaterThan(charge(0))
      }),
    )
  })

  test('refuses what is no amount', () => {
    expect(() => longestAtMinimumMs({ pricePerAudioHourUsd: '1e-3', minimumChargeUsd: '0.1' })).toThrow(RangeError)
  })
})

describe('frameTableOf', () => {
  test('leaves out tags, the header frame and an incomplete last frame', () => {
    const frames = generateFrames(50)
    const tagged = joinBytes(generateId3v2(new Uint8Array(300)), generateInfoFrame('Xing', 40), frames, generateId3v1())
    expect(framesBetween(tableOf(tagged), 0, 50)).toEqual(frames)
    expect(tableOf(frames.subarray(0, -1)).frameCount).toBe(49)
  })

  test('refuses what cannot be cut without another encoding', () => {
    const restarted = joinBytes(generateFrames(9), generateId3v1(), generateFrames(9))
    const mixed = joinBytes(generateFrames(9), generateFrames(9, { sampleRate: 22_050 }))
    const joined = joinBytes(generateFrames(9), generateInfoFrame('Info', 9), generateFrames(9))
    for (const bytes of [restarted, mixed, joined]) expect(frameTableOf(bytes, walked(bytes))).toBeUndefined()
  })

  test('finds the last frame within a number of bytes', () => {
    const table = tableOf(generateFrames(50))
    for (const frame of [1, 7, 50]) {
      const bytes = framesBetween(table, 0, frame).length
      expect(lastFrameWithin(table, 0, bytes)).toBe(frame)
      expect(lastFrameWithin(table, 0, bytes - 1)).toBe(frame - 1)
    }
  })
})

describe('parts of an MP3', () => {
  test('have every frame once and stay within the limits', async () => {
    const frames = generateMp3({ durationMs: 20_000 })
    const table = tableOf(frames)
    const limits = { maximumBytes: 100_000, maximumDurationMs: 5_000 }
    const { latestEndMs, durationMs } = cuttable(table, limits)
    for (let startMs = 0; startMs < durationMs; startMs = latestEndMs(startMs)) {
      const endMs = latestEndMs(startMs)
      expect(endMs - startMs).toBeLessThanOrEqual(5_000)
      expect(endMs - startMs).toBeGreaterThan(endMs === durationMs ? 0 : 4_900)
    }
    const [whole] = await cutRecording(table, { path: 'a.mp3', limits: LIMITS, requireFfmpeg: NO_FFMPEG })
    expect(whole?.content).toEqual(framesBetween(table, 0, table.frameCount))
  })

  test('begin with the frame in which the quiet moment is, since their first frame is not exact', () => {
    const table = tableOf(generateFrames(50, { sampleRate: 16_000 }))
    const { cutBeforeMs } = cuttable(table, LIMITS)
    expect([0, 35, 36, 71, 72].map(cutBeforeMs)).toEqual([0, 0, 36, 36, 72])
    for (let frame = 0; frame <= 50; frame++)
      expect(cutBeforeMs(timeOfFrame(table, frame))).toBe(timeOfFrame(table, frame))
  })

  test('need no ffmpeg when only the tags exceed the limit', async () => {
    const frames = generateFrames(50)
    const cover = joinBytes(generateId3v2(new Uint8Array(50_000)), frames)
    const treatment = treatmentOf(asRead(cover), { ...LIMITS, maximumBytes: 40_000 })
    if (treatment.kind !== 'cut') throw new Error(treatment.kind)
    const limits = { ...LIMITS, maximumBytes: 40_000 }
    const parts = await cutRecording(treatment.table, { path: 'a.mp3', limits, requireFfmpeg: NO_FFMPEG })
    expect(parts.map(({ content }) => content)).toEqual([frames])
  })
})

describe('the header frame', () => {
  test('claims how many frames there are, and how many samples decoders skip', () => {
    expect(claimsOf(withDelay('LAME3.100'))).toEqual({ frames: 40, skippedSamples: 576 + 529 })
    expect(claimsOf(withDelay('Lavc59.37'))).toEqual({ frames: 40, skippedSamples: 576 + 529 })
    expect(claimsOf(withDelay('\0\0\0\0'))).toEqual({ frames: 40, skippedSamples: 0 })
    expect(claimsOf(generateFrames(40))).toEqual({ frames: undefined, skippedSamples: 0 })
    expect(claimsOf(joinBytes(generateInfoFrame('VBRI', 40), generateFrames(40)))).toMatchObject({ skippedSamples: 0 })
  })

  test('of an MP3 that is cut moves its parts by the delay', async () => {
    const mp3 = withDelay('LAME3.100')
    const [part] = await cutRecording(tableOf(mp3), { path: 'a.mp3', limits: LIMITS, requireFfmpeg: NO_FFMPEG })
    expect(part?.startMs).toBeCloseTo((-1105 / 44_100) * 1000, 6)
  })
})

describe('treatmentOf', () => {
  test('sends an MP3 up to the limits as it is, and never one beyond', () => {
    const frames = generateFrames(50)
    const { durationMs } = walked(frames)
    const limits = { maximumBytes: frames.length, maximumDurationMs: durationMs }
    expect(treatmentOf(asRead(frames), limits)).toMatchObject({ kind: 'send', durationMs })
    expect(treatmentOf(asRead(frames), { ...limits, maximumBytes: frames.length - 1 }).kind).toBe('cut')
    expect(treatmentOf(asRead(frames), { ...limits, maximumDurationMs: durationMs - 1 }).kind).toBe('cut')
  })

  test('decides by the content, whatever the name', () => {
    const wave = new TextEncoder().encode('RIFF\x24\0\0\0WAVEfmt ')
    expect(treatmentOf(asRead(wave), LIMITS)).toEqual({ kind: 'convert', found: 'a RIFF/WAVE container' })
    expect(() => treatmentOf(asRead(new TextEncoder().encode('%PDF-1.7 ')), LIMITS)).toThrow('it is a PDF document.')
    expect(() => treatmentOf(asRead(generateInfoFrame('Xing', 40)), LIMITS)).toThrow('without any sound')
    const cut = generateId3v2(new Uint8Array(10), { claimedBytes: 1000 })
    expect(() => treatmentOf(asRead(cut), LIMITS)).toThrow('incomplete')
  })
})

describe('packs', () => {
  test.each(SAMPLE_RATES)('join clips of %i Hz as one stream, with each clip at its span', (sampleRate) => {
    for (const mode of STEREO_MODES) {
      const clips = [30, 1, 17].map((count) => tableOf(generateFrames(count, { sampleRate, mode })))
      const { content, spans } = buildPack(clips, 500)
      const pack = tableOf(content)
      for (const [index, { startMs, endMs }] of spans.entries()) {
        const numbers = Array.from({ length: pack.frameCount + 1 }, (_, frame) => frame)
        const from = numbers.find((frame) => timeOfFrame(pack, frame) === startMs) ?? -1
        const to = numbers.find((frame) => timeOfFrame(pack, frame) === endMs) ?? -1
        const clip = clips[index] as FrameTable
        expect(Buffer.compare(framesBetween(pack, from, to), framesBetween(clip, 0, clip.frameCount))).toBe(0)
        const nextStartMs = spans[index + 1]?.startMs ?? Number.POSITIVE_INFINITY
        expect(nextStartMs - endMs).toBeGreaterThanOrEqual(500)
      }
    }
  })

  test('refuse clips of different rates', () => {
    const clips = [44_100, 22_050].map((sampleRate) => tableOf(generateFrames(9, { sampleRate })))
    expect(() => buildPack(clips)).toThrow(RangeError)
  })

  test('have silent frames whose header is that of the stream', () => {
    const header = generateFrames(1, { mode: 'joint', crc: true })
    const silent = silentFrameLike(header)
    expect(walked(joinBytes(header, silent, silent)).discontinuities).toBe(0)
    expect(silent.subarray(4).every((byte) => byte === 0)).toBe(true)
  })
})
