import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { appendFileSync } from 'node:fs'
import { mkdir, mkdtemp, rename, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parseSilences } from '../../../../client/audio/ffmpeg.ts'
import { nextCut, planCuts, type Silence } from '../../../../client/audio/parts/plan-parts.ts'
import { quietestMomentMs } from '../../../../client/audio/parts/quietest-moment.ts'
import { readAgain, readRecording } from '../../../../client/audio/read-recording.ts'
import { minimumPartMs } from '../../../../client/batch/plan/pricing.ts'

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
const EVERYTHING = { maximumContentBytes: Number.POSITIVE_INFINITY }

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

const terms = (hour: string, minimum: string, maximumDurationMs = HOUR) => ({
  limits: { maximumBytes: 1_000_000, minimumDurationMs: 100, maximumDurationMs },
  prices: { pricePerAudioHourUsd: hour, minimumChargeUsd: minimum },
})

describe('minimumPartMs', () => {
  test('leaves no last part that is charged the minimum or refused, as far as parts are that long', () => {
    expect(minimumPartMs(terms('0.122', '0.005034'))).toBe(148_544)
    expect(minimumPartMs(terms('0.122', '0'))).toBe(100)
    expect(minimumPartMs(terms('0', '0.005034'))).toBe(HOUR / 2)
    expect(minimumPartMs(terms('0.122', '0', 150))).toBe(75)
  })

  test.each([3_600_001, 3_600_050, 3_600_099])(
    'of a recording of %i ms, a service without a minimum charge gets no part below its least length',
    async (durationMs) => {
      const silences = [{ startMs: HOUR - 10, endMs: HOUR }]
      const options = { minimumPartMs: minimumPartMs(terms('0.122', '0')) }
      const [cut = 0] = await planCuts(
        recordingOf(durationMs),
        silences,
        ({ endMs }) => Promise.resolve(endMs),
        options,
      )
      expect(durationMs - cut).toBeGreaterThanOrEqual(100)
    },
  )
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

describe('the parts of a long recording', () => {
  test('parseSilences reads the report of ffmpeg, with a silence that lasts to the end', () => {
    const report = `[silencedetect @ 0x1] silence_start: -0.01
[silencedetect @ 0x1] silence_end: 1.25 | silence_duration: 1.26
[silencedetect @ 0x1] silence_start: 7.5e+00`
    expect(parseSilences(report)).toEqual([
      { startMs: 0, endMs: 1250 },
      { startMs: 7500, endMs: Number.POSITIVE_INFINITY },
    ])
  })
})

describe('reading a recording', () => {
  let folder = ''
  const at = (name: string) => join(folder, name)
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'farebox-read-'))
  })

  afterAll(async () => {
    await rm(folder, { recursive: true, force: true })
  })

  describe('readRecording', () => {
    test('returns size, hash and content of one reading', async () => {
      const content = Buffer.alloc(200_000, 'speech')
      await writeFile(at('a.mp3'), content)
      const read = await readRecording(at('a.mp3'), EVERYTHING)
      expect(read).toMatchObject({
        bytes: content.length,
        sha256: createHash('sha256').update(content).digest('hex'),
      })
      expect(Buffer.from(read.content).equals(content)).toBe(true)
      const beginning = await readRecording(at('a.mp3'), { maximumContentBytes: 199_999 })
      expect(beginning.sha256).toBe(read.sha256)
      expect(Buffer.from(beginning.content).equals(content.subarray(0, 65_536))).toBe(true)
    })

    test('says that nothing was charged for a missing file, a folder, an empty file and a pipe', async () => {
      await mkdir(at('folder.mp3'))
      await writeFile(at('empty.mp3'), '')
      execFileSync('mkfifo', [at('pipe.mp3')])
      for (const [name, code] of [
        ['missing.mp3', 'file_not_found'],
        ['folder.mp3', 'not_a_file'],
        ['empty.mp3', 'empty_file'],
        ['pipe.mp3', 'not_a_file'],
      ] as const) {
        await expect(readRecording(at(name), EVERYTHING)).rejects.toMatchObject({
          code,
          money: 'none',
          message: expect.stringContaining('Nothing was charged.'),
        })
      }
    })

    test('refuses a file that grows while it is read', async () => {
      await writeFile(at('growing.mp3'), Buffer.alloc(4_000_000))
      const done = new AbortController()
      const reading = readRecording(at('growing.mp3'), EVERYTHING).finally(() => done.abort())
      const growing = (async () => {
        while (!done.signal.aborted) {
          appendFileSync(at('growing.mp3'), 'more')
          await setImmediate()
        }
      })()
      await expect(reading).rejects.toMatchObject({ code: 'file_changed' })
      await growing
    })
  })

  describe('readAgain', () => {
    test('refuses other content, even of the same size and time', async () => {
      await writeFile(at('b.mp3'), 'first')
      const { content: _, ...facts } = await readRecording(at('b.mp3'), EVERYTHING)
      expect(Buffer.from(await readAgain(facts)).toString()).toBe('first')
      const { atime, mtime } = await stat(at('b.mp3'))
      await writeFile(at('b.mp3'), 'other')
      await utimes(at('b.mp3'), atime, mtime)
      await expect(readAgain(facts)).rejects.toMatchObject({ code: 'file_changed' })
    })

    test('reports a file that was renamed', async () => {
      await writeFile(at('c.mp3'), 'first')
      const { content: _, ...facts } = await readRecording(at('c.mp3'), EVERYTHING)
      await rename(at('c.mp3'), at('d.mp3'))
      await expect(readAgain(facts)).rejects.toMatchObject({ code: 'file_not_found' })
    })
  })
})
