import { describe, expect, test } from 'vitest'

import { type Mp3Walk, walkFrames } from '#shared/audio/walk-frames.ts'
import {
  bitratesOfMpeg1,
  bitratesOfMpeg2,
  durationMsOfFrames,
  generatedDurationMs,
  generateFrames,
  generateInfoFrame,
  generateMp3,
  joinBytes,
  sampleRates,
  samplesPerFrame,
  stereoModes,
} from '../../support/media/mp3-generator.ts'

function accepted(bytes: Uint8Array): Mp3Walk {
  const walk = walkFrames(bytes)
  if (walk.outcome !== 'mp3') throw new Error(`refused: ${walk.found}`)
  return walk
}

describe('counting frames', () => {
  const combinations = sampleRates.flatMap((sampleRate) =>
    (sampleRate >= 32_000 ? bitratesOfMpeg1 : bitratesOfMpeg2).map((bitrate) => ({ sampleRate, bitrate })),
  )

  test.each(combinations)('counts $bitrate kbit/s at $sampleRate Hz in all five stereo modes', (options) => {
    for (const mode of stereoModes) {
      for (const crc of [false, true]) {
        const walk = accepted(generateFrames(50, { ...options, mode, crc }))
        expect(walk.parts).toEqual([
          { sampleRate: options.sampleRate, samples: 50 * samplesPerFrame(options.sampleRate) },
        ])
        expect(walk).toMatchObject({ frameCount: 50, unrecognisedBytes: 0, discontinuities: 0 })
        expect(walk.durationMs).toBe(durationMsOfFrames(50, options.sampleRate))
      }
    }
  })

  test.each(sampleRates)(
    'counts free format at %i Hz, of which the header does not say how long a frame is',
    (sampleRate) => {
      for (const freeFormatBytes of [60, 417, 731, 2880]) {
        const walk = accepted(generateFrames(30, { sampleRate, freeFormatBytes, mode: 'mono' }))
        expect(walk.frameCount).toBe(30)
        expect(walk.unrecognisedBytes).toBe(0)
        expect(walk.decodable.parts).toEqual([])
      }
    },
  )

  test('finds the new length where free format of another bitrate is joined', () => {
    const walk = accepted(
      joinBytes(generateFrames(10, { freeFormatBytes: 500 }), generateFrames(10, { freeFormatBytes: 700 })),
    )
    expect(walk.frameCount).toBe(20)
    expect(walk.unrecognisedBytes).toBe(0)
  })

  test.each([1, 2, 3])('takes a file of %i frames, which is less than a resynchronisation needs', (count) => {
    expect(accepted(generateFrames(count)).durationMs).toBe(durationMsOfFrames(count))
  })

  test('a bitrate that changes from frame to frame is one stream', () => {
    const bitrates = Array.from({ length: 200 }, (_, index) => bitratesOfMpeg1[index % 14] ?? 32)
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

  test('each part of a joined file is counted at its own rate', () => {
    const parts = sampleRates.map((sampleRate) => generateFrames(10, { sampleRate }))
    const walk = accepted(joinBytes(...parts))
    expect(walk.parts).toEqual(
      sampleRates.map((sampleRate) => ({ sampleRate, samples: 10 * samplesPerFrame(sampleRate) })),
    )
    expect(walk).toMatchObject({ unrecognisedBytes: 0, discontinuities: 8 })
  })

  test('counts hours at the smallest bitrate', () => {
    const options = { durationMs: 7 * 3_600_000, sampleRate: 24_000, bitrate: 8 }
    expect(accepted(generateMp3(options)).durationMs).toBe(generatedDurationMs(options))
  })
})

describe('Xing, Info and VBRI frames', () => {
  test.each(['Xing', 'Info', 'VBRI'] as const)(
    'a leading %s frame is not counted and its claims are not believed',
    (mark) => {
      for (const claimed of [0, 1, 40, 1_000_000, 0xff_ff_ff_ff]) {
        for (const options of [
          {},
          { crc: true },
          { sampleRate: 22_050 },
          { sampleRate: 8_000, mode: 'mono' },
        ] as const) {
          const walk = accepted(joinBytes(generateInfoFrame(mark, claimed, options), generateFrames(40, options)))
          expect(walk.frameCount).toBe(40)
          expect(walk.durationMs).toBe(durationMsOfFrames(40, 'sampleRate' in options ? options.sampleRate : 44_100))
        }
      }
    },
  )

  test('those of joined files are not counted either, but a decoder plays them', () => {
    const file = joinBytes(generateInfoFrame('Info', 10), generateFrames(10))
    const walk = accepted(joinBytes(file, file, file))
    expect(walk.frameCount).toBe(30)
    expect(walk.decodable.parts).toEqual([{ sampleRate: 44_100, samples: 32 * 1152 }])
  })

  test('a file made of them is counted beyond the first few', () => {
    const walk = accepted(joinBytes(...Array.from({ length: 1000 }, () => generateInfoFrame('Xing', 1))))
    expect(walk.frameCount).toBeGreaterThan(900)
  })

  test('a later frame with the mark that also carries audio is counted', () => {
    const frame = generateInfoFrame('Xing', 1)
    frame[10] = 1
    expect(accepted(joinBytes(generateFrames(10), frame, generateFrames(10))).frameCount).toBe(21)
  })
})

describe('truncation', () => {
  test('a cut last frame is accepted, not counted and not held against the file', () => {
    const whole = generateFrames(10)
    const start = generateFrames(9).length
    for (const end of [start + 4, start + 5, whole.length - 1]) {
      expect(accepted(whole.subarray(0, end))).toMatchObject({ frameCount: 9, unrecognisedBytes: 0 })
    }
  })

  test('a cut first frame is unrecognised bytes', () => {
    const whole = generateFrames(10)
    expect(accepted(whole.subarray(100))).toMatchObject({ frameCount: 9, unrecognisedBytes: 317 })
  })

  test('bytes lost in the middle cost the frame whose header the damaged one swallows', () => {
    const whole = generateFrames(100)
    const walk = accepted(joinBytes(whole.subarray(0, 10_000), whole.subarray(10_100)))
    expect(walk.frameCount).toBe(99)
    expect(walk.discontinuities).toBe(1)
  })
})
