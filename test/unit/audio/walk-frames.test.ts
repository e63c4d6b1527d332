import { describe, expect, test } from 'vitest'

import { type Mp3Walk, walkFrames } from '#shared/audio/walk-frames.ts'
import {
  durationMsOfFrames,
  generatedDurationMs,
  generateFrames,
  generateInfoFrame,
  generateMp3,
  joinBytes,
  MPEG1_BITRATES,
  MPEG2_BITRATES,
  SAMPLE_RATES,
  STEREO_MODES,
  samplesPerFrame,
} from '../../support/media/mp3-generator.ts'

function accepted(bytes: Uint8Array): Mp3Walk {
  const walk = walkFrames(bytes)
  if (walk.outcome !== 'mp3') throw new Error(`rejected: ${walk.found}`)
  return walk
}

describe('counting frames', () => {
  const combinations = SAMPLE_RATES.flatMap((sampleRate) =>
    (sampleRate >= 32_000 ? MPEG1_BITRATES : MPEG2_BITRATES).map((bitrate) => ({ sampleRate, bitrate })),
  )

  test.each(combinations)('counts $bitrate kbit/s at $sampleRate Hz in all five stereo modes', (options) => {
    for (const mode of STEREO_MODES) {
      for (const crc of [false, true]) {
        const walk = accepted(generateFrames(50, { ...options, mode, crc }))
        expect(walk.parts).toEqual([
          { sampleRate: options.sampleRate, samples: 50 * samplesPerFrame(options.sampleRate) },
        ])
        expect(walk).toMatchObject({ frameCount: 50, unrecognizedBytes: 0, discontinuities: 0 })
        expect(walk.durationMs).toBe(durationMsOfFrames(50, options.sampleRate))
      }
    }
  })

  test.each(SAMPLE_RATES)('counts free format at %i Hz, whose headers do not state the frame length', (sampleRate) => {
    for (const freeFormatBytes of [60, 417, 731, 2880]) {
      const walk = accepted(generateFrames(30, { sampleRate, freeFormatBytes, mode: 'mono' }))
      expect(walk.frameCount).toBe(30)
      expect(walk.unrecognizedBytes).toBe(0)
      expect(walk.decodable.parts).toEqual([])
    }
  })

  test('finds the new frame length where free format of another bitrate is joined', () => {
    const walk = accepted(
      joinBytes(generateFrames(10, { freeFormatBytes: 500 }), generateFrames(10, { freeFormatBytes: 700 })),
    )
    expect(walk.frameCount).toBe(20)
    expect(walk.unrecognizedBytes).toBe(0)
  })

  test.each([1, 2, 3])('accepts a file of %i frames, fewer than or as many as a resynchronization needs', (count) => {
    expect(accepted(generateFrames(count)).durationMs).toBe(durationMsOfFrames(count))
  })

  test('treats a bitrate that changes from frame to frame as one stream', () => {
    const bitrates = Array.from({ length: 200 }, (_, index) => MPEG1_BITRATES[index % 14] ?? 32)
    const walk = accepted(joinBytes(...bitrates.map((bitrate) => generateFrames(1, { bitrate }))))
    expect(walk).toMatchObject({ frameCount: 200, discontinuities: 0 })
  })

  test('rounds the exact sum up to the millisecond once', () => {
    // 49 frames at 44.1 kHz are exactly 1,280 ms; 50 are 1,306.12…
    expect(accepted(generateFrames(49)).durationMs).toBe(1280)
    expect(accepted(generateFrames(50)).durationMs).toBe(1307)
    const both = joinBytes(
      generateFrames(1),
      generateFrames(1, { sampleRate: 8_000 }),
      generateFrames(1, { sampleRate: 11_025 }),
    )
    // 26.122… + 72 + 52.244…
    expect(accepted(both).durationMs).toBe(151)
  })

  test('counts each part of a joined file at its own rate', () => {
    const parts = SAMPLE_RATES.map((sampleRate) => generateFrames(10, { sampleRate }))
    const walk = accepted(joinBytes(...parts))
    expect(walk.parts).toEqual(
      SAMPLE_RATES.map((sampleRate) => ({ sampleRate, samples: 10 * samplesPerFrame(sampleRate) })),
    )
    expect(walk).toMatchObject({ unrecognizedBytes: 0, discontinuities: 8 })
  })

  test('counts hours at the smallest bitrate', () => {
    const options = { durationMs: 7 * 3_600_000, sampleRate: 24_000, bitrate: 8 }
    expect(accepted(generateMp3(options)).durationMs).toBe(generatedDurationMs(options))
  })
})

describe('Xing, Info and VBRI frames', () => {
  test.each(['Xing', 'Info', 'VBRI'] as const)('does not count a leading %s frame and ignores its claims', (mark) => {
    for (const claimed of [0, 1, 40, 1_000_000, 0xff_ff_ff_ff]) {
      for (const options of [{}, { crc: true }, { sampleRate: 22_050 }, { sampleRate: 8_000, mode: 'mono' }] as const) {
        const walk = accepted(joinBytes(generateInfoFrame(mark, claimed, options), generateFrames(40, options)))
        expect(walk.frameCount).toBe(40)
        expect(walk.durationMs).toBe(durationMsOfFrames(40, 'sampleRate' in options ? options.sampleRate : 44_100))
      }
    }
  })

  test('does not count the Info frames of joined files, which a decoder plays', () => {
    const file = joinBytes(generateInfoFrame('Info', 10), generateFrames(10))
    const walk = accepted(joinBytes(file, file, file))
    expect(walk.frameCount).toBe(30)
    expect(walk.decodable.parts).toEqual([{ sampleRate: 44_100, samples: 32 * 1152 }])
  })

  test('counts Xing frames beyond the first few', () => {
    const walk = accepted(joinBytes(...Array.from({ length: 1000 }, () => generateInfoFrame('Xing', 1))))
    expect(walk.frameCount).toBeGreaterThan(900)
  })

  test('counts a later frame that has the Xing mark and audio', () => {
    const frame = generateInfoFrame('Xing', 1)
    frame[10] = 1
    expect(accepted(joinBytes(generateFrames(10), frame, generateFrames(10))).frameCount).toBe(21)
  })
})

describe('truncation', () => {
  test('accepts a truncated last frame without counting it', () => {
    const whole = generateFrames(10)
    const start = generateFrames(9).length
    for (const end of [start + 4, start + 5, whole.length - 1]) {
      expect(accepted(whole.subarray(0, end))).toMatchObject({ frameCount: 9, unrecognizedBytes: 0 })
    }
  })

  test('treats a truncated first frame as unrecognized bytes', () => {
    const whole = generateFrames(10)
    expect(accepted(whole.subarray(100))).toMatchObject({ frameCount: 9, unrecognizedBytes: 317 })
  })

  test('loses one frame when bytes are missing in the middle', () => {
    const whole = generateFrames(100)
    const walk = accepted(joinBytes(whole.subarray(0, 10_000), whole.subarray(10_100)))
    expect(walk.frameCount).toBe(99)
    expect(walk.discontinuities).toBe(1)
  })
})
