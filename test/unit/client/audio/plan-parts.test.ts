import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseSilences } from '../../../../client/audio/ffmpeg/find-silences.ts'
import { nextCut, planCuts, type Silence } from '../../../../client/audio/parts/plan-parts.ts'
import { quietestMomentMs } from '../../../../client/audio/parts/quietest-moment.ts'

const noWindow = async () => {
  throw new Error('there is a silence')
}
const HOUR = 3_600_000
const recordingOf = (durationMs: number, maximumMs = HOUR) => ({
  durationMs,
  latestEndMs: (startMs: number) => Math.min(durationMs, startMs + maximumMs),
  cutBeforeMs: (timeMs: number) => Math.round(timeMs),
})
const MINUTE = 60_000
const silence = (minutes: number, lengthMs: number): Silence => ({
  startMs: minutes * MINUTE,
  endMs: minutes * MINUTE + lengthMs,
})

describe('nextCut', () => {
  test('does not cut a recording of exactly the limit', () => {
    expect(nextCut(0, recordingOf(HOUR), [])).toBeUndefined()
    expect(nextCut(0, recordingOf(HOUR + 1), [])).toBeDefined()
  })

  test('takes the middle of the longest silence near the limit, not a longer one far from it', () => {
    const silences = [silence(20, 9000), silence(50, 800), silence(55, 2000), silence(58, 1000), silence(61, 5000)]
    expect(nextCut(0, recordingOf(2 * HOUR), silences)).toEqual({ kind: 'silence', atMs: 55 * MINUTE + 1000 })
  })

  test('looks for the quietest moment of the window when there is no silence', () => {
    expect(nextCut(0, recordingOf(2 * HOUR), [silence(20, 9000)])).toEqual({
      kind: 'window',
      startMs: 48 * MINUTE,
      endMs: 60 * MINUTE,
    })
  })

  test('leaves a last part that is not charged the minimum', () => {
    const silences = [silence(57, 500), silence(59, 5000)]
    const options = { minimumPartMs: 150_000 }
    const cut = nextCut(0, recordingOf(HOUR + 1000), silences, options)
    expect(cut).toEqual({ kind: 'silence', atMs: 57 * MINUTE + 250 })
  })
})

describe('planCuts', () => {
  test('makes parts within the limit that cover any recording, in order', async () => {
    const drawn = fc.record({
      durationMs: fc.integer({ min: 1, max: 10 * HOUR }),
      maximumMs: fc.integer({ min: 60_000, max: HOUR }),
      minimumPartMs: fc.integer({ min: 0, max: 200_000 }),
      pauses: fc.array(fc.tuple(fc.nat(10 * HOUR), fc.nat(20_000)), { maxLength: 40 }),
      quietest: fc.double({ min: -0.5, max: 1.5, noNaN: true }),
    })
    await fc.assert(
      fc.asyncProperty(drawn, async ({ durationMs, maximumMs, minimumPartMs, pauses, quietest }) => {
        const silences = pauses.map(([startMs, length]) => ({ startMs, endMs: startMs + length }))
        const moment = async ({ startMs, endMs }: Silence) => startMs + quietest * (endMs - startMs)
        const cuts = await planCuts(recordingOf(durationMs, maximumMs), silences, moment, { minimumPartMs })
        const edges = [0, ...cuts, durationMs]
        for (const [index, end] of edges.slice(1).entries()) {
          const length = end - (edges[index] as number)
          expect(length).toBeGreaterThan(0)
          expect(length).toBeLessThanOrEqual(maximumMs)
        }
      }),
    )
  })

  test('cuts 3 h 15 into few parts, all of them in silences', async () => {
    const silences = Array.from({ length: 400 }, (_, index) => silence(index / 2 + 0.4, 300 + ((index * 37) % 900)))
    const cuts = await planCuts(recordingOf(195 * MINUTE), silences, noWindow)
    expect(cuts.length).toBeLessThanOrEqual(4)
    for (const cut of cuts) expect(silences.some(({ startMs, endMs }) => cut > startMs && cut < endMs)).toBe(true)
  })
})

describe('quietestMomentMs', () => {
  test('finds the middle of the quietest stretch between loud ones', () => {
    const samples = Int16Array.from({ length: 8000 }, (_, index) => {
      const loudness = index >= 4000 && index < 5200 ? 20 : 9000
      return index % 2 === 0 ? loudness : -loudness
    })
    const found = quietestMomentMs(samples, 8000)
    expect(found).toBeGreaterThanOrEqual(500 + 60)
    expect(found).toBeLessThanOrEqual(650 - 60)
  })

  test('returns the middle of a window that is too short to compare', () => {
    expect(quietestMomentMs(new Int16Array(40), 8000)).toBe(2.5)
  })
})

test('parseSilences reads the report of ffmpeg, with a silence that lasts to the end', () => {
  const report = `[silencedetect @ 0x1] silence_start: -0.01
[silencedetect @ 0x1] silence_end: 1.25 | silence_duration: 1.26
[silencedetect @ 0x1] silence_start: 7.5e+00`
  expect(parseSilences(report)).toEqual([
    { startMs: 0, endMs: 1250 },
    { startMs: 7500, endMs: Number.POSITIVE_INFINITY },
  ])
})
