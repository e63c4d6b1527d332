import { describe, expect, test } from 'vitest'
import { walkFrames } from '#shared/audio/walk-frames.ts'
import { planDecode } from '../../../api/request/audio/plan-decode.ts'
import { generateFrames, generateInfoFrame, joinBytes } from '../../support/media/mp3-generator.ts'
import { generateId3v1, generateId3v2 } from '../../support/media/tag-generator.ts'

function planOf(audio: Uint8Array) {
  const walk = walkFrames(audio)
  if (walk.outcome !== 'mp3') throw new Error(walk.found)
  return planDecode(audio, walk)
}

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
    for (const options of [{ crc: true }, { freeFormatBytes: 500 }, { sampleRate: 8_000, mode: 'mono' as const }]) {
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

  test('compares joined files at the rate of the longest', () => {
    const audio = joinBytes(generateFrames(100, { sampleRate: 8_000 }), generateFrames(50, { sampleRate: 48_000 }))
    // 7.2 s and 1.2 s, and 144 ms of primer.
    expect(planOf(audio)).toMatchObject({ sampleRate: 8_000, expectedSamples: 68_352 })
  })
})
