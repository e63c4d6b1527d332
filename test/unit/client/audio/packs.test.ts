import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { walkFrames } from '#mp3/walk-frames.ts'
import { planPacks } from '../../../../client/audio/pack/plan-packs.ts'
import { preparePacks } from '../../../../client/audio/pack/prepare-packs.ts'
import { takeApart } from '../../../../client/audio/pack/take-apart.ts'
import { stitch } from '../../../../client/audio/parts/stitch.ts'
import { prepareRecording } from '../../../../client/audio/prepare-recording.ts'
import { textOfWords } from '../../../../client/audio/transcript.ts'
import type { TranscribedWord } from '../../../../client/subtitles/words.ts'
import { generateMp3 } from '../../../support/media/mp3-generator.ts'

const limits = { maximumBytes: 26_214_400, maximumDurationMs: 3_600_000 }
const prices = { pricePerAudioHourUsd: '0.122', minimumChargeUsd: '0.005034' }
const MINIMUM = 5034n
const charge = (durationMs: number) => {
  const price = (BigInt(Math.ceil(durationMs)) * 122_000n + 3_599_999n) / 3_600_000n
  return price > MINIMUM ? price : MINIMUM
}
const clip = (durationMs: number, streamKey: number | undefined = 1, bytes = 1) => ({ durationMs, streamKey, bytes })
const word = (text: string, start: number, end: number, speaker?: string): TranscribedWord => ({
  word: text,
  start,
  end,
  type: 'word',
  ...(speaker && { speaker }),
})
const space = (start: number, end: number): TranscribedWord => ({ word: ' ', start, end, type: 'spacing' })
const textPart = (text: string) => ({ transcript: { text }, offsetMs: 0, durationMs: 1 })
const spokenPart = (language: string, durationMs: number, language_probability_millionths: number) => ({
  transcript: { text: 'x', language, language_probability_millionths },
  offsetMs: 0,
  durationMs,
})

describe('planPacks', () => {
  test('joins 20 clips of 22 s into one pack', () => {
    const clips = Array.from({ length: 20 }, () => clip(22_280))
    expect(planPacks(clips, { limits, prices })).toEqual({ packs: [clips], single: [] })
  })

  test('leaves alone what is too long to gain, cannot be joined, or has no partner', () => {
    const clips = [clip(148_000), clip(200_000), clip(1000, undefined), clip(1000, 2)]
    expect(planPacks(clips, { limits, prices })).toEqual({ packs: [], single: clips })
  })

  test('takes every clip once, in its order, within the limits, and never costs more than single clips', () => {
    const clips = fc.array(
      fc.record({
        durationMs: fc.integer({ min: 30, max: 160_000 }),
        bytes: fc.integer({ min: 1, max: 3_000_000 }),
        streamKey: fc.constantFrom(1, 2, undefined),
      }),
      { maxLength: 80 },
    )
    const maximumPackMs = fc.constantFrom(undefined, 300_000)
    fc.assert(
      fc.property(clips, maximumPackMs, (clips, maximum) => {
        const { packs, single } = planPacks(clips, { limits, prices, ...(maximum && { maximumPackMs: maximum }) })
        const taken = [...packs.flat(), ...single]
        expect(taken).toHaveLength(clips.length)
        expect(new Set(taken).size).toBe(clips.length)
        for (const pack of packs) {
          expect(pack.length).toBeGreaterThan(1)
          expect(new Set(pack.map(({ streamKey }) => streamKey)).size).toBe(1)
          const places = pack.map((one) => clips.indexOf(one))
          expect(places).toEqual(places.toSorted((one, other) => one - other))
          const gaps = (pack.length - 1) * 1072
          const durationMs = pack.reduce((sum, one) => sum + one.durationMs, gaps)
          expect(durationMs).toBeLessThanOrEqual(maximum ?? limits.maximumDurationMs)
          expect(pack.reduce((sum, { bytes }) => sum + bytes, 0)).toBeLessThanOrEqual(limits.maximumBytes)
          expect(charge(durationMs)).toBeLessThanOrEqual(pack.reduce((sum, one) => sum + charge(one.durationMs), 0n))
        }
      }),
    )
  })
})

describe('takeApart', () => {
  const spans = [
    { startMs: 0, endMs: 1000 },
    { startMs: 2000, endMs: 3000 },
    { startMs: 4000, endMs: 5000 },
  ]

  test('returns the words of each clip with its own times, text and speakers', () => {
    const words = [
      word('one', 0.1, 0.5, 'speaker_0'),
      space(0.5, 2.1),
      word('two', 2.1, 2.4, 'speaker_1'),
      space(2.4, 2.5),
      word('three', 2.5, 2.9, 'speaker_0'),
    ]
    const transcript = { text: 'one two three', language: 'en', words }
    expect(takeApart(transcript, spans)).toEqual([
      { language: 'en', text: 'one', words: [word('one', 0.1, 0.5, 'speaker_0')], wordsInSilence: 0 },
      {
        language: 'en',
        text: 'two three',
        words: [word('two', 0.1, 0.4, 'speaker_0'), space(0.4, 0.5), word('three', 0.5, 0.9, 'speaker_1')],
        wordsInSilence: 0,
      },
      { language: 'en', text: '', words: [], wordsInSilence: 0 },
    ])
  })

  test('keeps a word that was heard in the silence, at the edge of the nearest clip, and counts it', () => {
    const [first, second] = takeApart({ text: '', words: [word('late', 1.2, 1.4), word('early', 1.7, 1.9)] }, spans)
    expect(first).toMatchObject({ words: [word('late', 1, 1)], wordsInSilence: 1 })
    expect(second).toMatchObject({ words: [word('early', 0, 0)], wordsInSilence: 1 })
  })

  test('assigns a word that reaches into the silence, or across it, to the clip that has more of it', () => {
    const [first, second] = takeApart({ text: '', words: [word('long', 0.9, 1.8), word('wide', 0.8, 2.5)] }, spans)
    expect(first).toMatchObject({ words: [word('long', 0.9, 1)], wordsInSilence: 0 })
    expect(second).toMatchObject({ words: [word('wide', 0, 0.5)], wordsInSilence: 0 })
  })

  test('puts a word without times after the word before it', () => {
    const [, second] = takeApart({ text: '', words: [word('a', 2.1, 2.2), { word: 'b', type: 'word' }] }, spans)
    expect(second?.words.map(({ word }) => word)).toEqual(['a', 'b'])
  })

  test('needs the words', () => {
    expect(() => takeApart({ text: 'a' }, spans)).toThrow(TypeError)
  })

  test('finds every word of every clip, for any clips and times that are up to 200 ms off', () => {
    const drawn = fc.array(
      fc.record({
        durationMs: fc.integer({ min: 500, max: 5000 }),
        words: fc.integer({ min: 0, max: 6 }),
        shiftMs: fc.integer({ min: -200, max: 200 }),
      }),
      { minLength: 1, maxLength: 30 },
    )
    fc.assert(
      fc.property(drawn, (clips) => {
        let startMs = 0
        const words: TranscribedWord[] = []
        const spans = clips.map(({ durationMs, words: count, shiftMs }, clip) => {
          const span = { startMs, endMs: startMs + durationMs }
          for (let index = 0; index < count; index++) {
            const from = Math.max(0, startMs + (durationMs * index) / count + shiftMs)
            words.push(word(`c${clip}w${index}`, from / 1000, (from + durationMs / count) / 1000))
          }
          startMs = span.endMs + 1000
          return span
        })
        const apart = takeApart({ text: '', words }, spans)
        for (const [clip, { words: own, text }] of apart.entries()) {
          const expected = Array.from({ length: clips[clip]?.words ?? 0 }, (_, index) => `c${clip}w${index}`)
          expect(own.map(({ word }) => word)).toEqual(expected)
          expect(text).toBe(expected.join(' '))
          for (const { start, end } of own) {
            expect(start).toBeGreaterThanOrEqual(0)
            expect((end ?? 0) * 1000).toBeLessThanOrEqual((clips[clip]?.durationMs ?? 0) + 0.001)
          }
        }
      }),
    )
  })
})

describe('preparePacks', () => {
  let folder = ''
  const at = (name: string) => join(folder, name)
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'farebox-pack-'))
  })
  afterAll(async () => {
    await rm(folder, { recursive: true, force: true })
  })
  async function prepared(name: string, options: Parameters<typeof generateMp3>[0]) {
    await writeFile(at(name), generateMp3(options))
    const { uploads } = await prepareRecording(at(name), { limits, ffmpeg: undefined, folder: at('prepared') })
    const [upload] = uploads
    if (upload === undefined) throw new Error('no upload')
    return { name, upload }
  }

  test('joins 20 MP3s of 22 s without ffmpeg for less than 0.0158 USDC, and leaves another rate alone', async () => {
    const clips = []
    for (let index = 0; index < 20; index++)
      clips.push(await prepared(`clip-${index}.mp3`, { durationMs: 22_250, bitrate: 32, seed: `${index}` }))
    const other = await prepared('other.mp3', { durationMs: 2000, sampleRate: 22_050 })
    const { packs, single } = await preparePacks([...clips, other], { limits, prices, folder: at('packs') })
    expect(single).toEqual([other])
    expect(packs.map(({ clips }) => clips)).toEqual([clips])
    const [pack] = packs
    const walk = walkFrames(await readFile(pack?.upload.path ?? ''))
    expect(walk).toMatchObject({ outcome: 'mp3', durationMs: pack?.upload.durationMs, discontinuities: 0 })
    expect(((pack?.upload.durationMs ?? 0) * 0.122) / 3_600_000).toBeLessThanOrEqual(0.0158)
  })

  test('refuses a clip that changed after it was measured', async () => {
    const clips = [await prepared('a.mp3', { durationMs: 1000 }), await prepared('b.mp3', { durationMs: 1000 })]
    await writeFile(at('b.mp3'), 'something else')
    await expect(preparePacks(clips, { limits, prices, folder })).rejects.toMatchObject({ code: 'file_changed' })
  })
})

describe('transcripts of parts, joined', () => {
  const first = { text: 'Hello there.', words: [word('Hello', 0, 1, 'speaker_0'), space(1, 2), word('there.', 2, 3)] }
  const second = {
    text: 'Who speaks?',
    words: [word('Who', 0.5, 1, 'speaker_0'), space(1, 1.5), word('speaks?', 1.5, 2)],
  }
  const parts = [
    { transcript: first, offsetMs: 0, durationMs: 3000 },
    { transcript: second, offsetMs: 3000, durationMs: 2000 },
  ]

  test('shifts times, and puts one spacing between two parts', () => {
    const { text, words = [] } = stitch(parts)
    expect(text).toBe('Hello there. Who speaks?')
    expect(textOfWords(words)).toBe(text)
    expect(words.map(({ start, end }) => [start, end])).toEqual([
      [0, 1],
      [1, 2],
      [2, 3],
      [3, 3.5],
      [3.5, 4],
      [4, 4.5],
      [4.5, 5],
    ])
  })

  test('marks speakers with their part, since equal names may be two people', () => {
    const named = (options?: { speakers: number }) =>
      stitch(parts, options).words?.flatMap(({ speaker }) => (speaker ? [speaker] : []))
    expect(named()).toEqual(['part 1: speaker_0', 'part 2: speaker_0'])
    expect(named({ speakers: 1 })).toEqual(['speaker_0', 'speaker_0'])
    expect(stitch(parts.slice(0, 1)).words?.[0]?.speaker).toBe('speaker_0')
    const unnamed = parts.map((part) => {
      const words = part.transcript.words?.map((word) => ({ ...word, speaker: '\u200b' }))
      return { ...part, transcript: { ...part.transcript, words } }
    })
    expect(stitch(unnamed).words?.filter(({ speaker }) => speaker?.includes('part'))).toEqual([])
  })

  test('shifts the times of characters, and leaves words without times as they are', () => {
    const characters = [{ text: 'a', start: 0.25, end: 0.5 }]
    const transcript = { text: 'a b', words: [{ word: 'a', start: 0.25, end: 0.5, characters }, { word: 'b' }] }
    const { words } = stitch([
      { transcript: first, offsetMs: 0, durationMs: 3000 },
      { transcript, offsetMs: 60_000, durationMs: 1000 },
    ])
    expect(words?.slice(-2)).toEqual([
      { word: 'a', start: 60.25, end: 60.5, characters: [{ text: 'a', start: 60.25, end: 60.5 }] },
      { word: 'b' },
    ])
  })

  test('joins scripts without spaces without one', () => {
    expect(stitch([textPart('今日は'), textPart('晴れ')]).text).toBe('今日は晴れ')
    expect(stitch([textPart('silence'), textPart(''), textPart('ends')]).text).toBe('silence ends')
  })

  test('has no words when a part has none', () => {
    expect(stitch([...parts, { transcript: { text: 'x' }, offsetMs: 5000, durationMs: 1 }]).words).toBeUndefined()
  })

  test('names the language that is spoken longest', () => {
    expect(
      stitch([spokenPart('en', 10, 900_000), spokenPart('it', 25, 1), spokenPart('en', 20, 800_000)]),
    ).toMatchObject({
      language: 'en',
      language_probability_millionths: 800_000,
    })
  })

  test('loses and doubles no word, and moves none by more than a microsecond, wherever a recording is cut', () => {
    const drawn = fc.record({
      lengths: fc.array(fc.integer({ min: 20, max: 900 }), { minLength: 1, maxLength: 60 }),
      cuts: fc.uniqueArray(fc.integer({ min: 1, max: 59 }), { maxLength: 10 }),
      delayMs: fc.constantFrom(0, 25.0567, 69.0625),
    })
    fc.assert(
      fc.property(drawn, ({ lengths, cuts, delayMs }) => {
        let timeMs = 100
        const spoken = lengths.map((length, index) => {
          const start = timeMs
          timeMs += length + 40
          return { text: `w${index}`, startMs: start, endMs: start + length }
        })
        const edges = [0, ...cuts.filter((cut) => cut < spoken.length).sort((one, other) => one - other), spoken.length]
        const parts = edges.slice(1).map((end, index) => {
          const own = spoken.slice(edges[index], end)
          const startMs = (own[0]?.startMs ?? 0) - 20
          const words = own.map(({ text, startMs: from, endMs }) =>
            word(text, (from - startMs + delayMs) / 1000, (endMs - startMs + delayMs) / 1000),
          )
          return { transcript: { text: textOfWords(words), words }, offsetMs: startMs - delayMs, durationMs: 1 }
        })
        const { text, words = [] } = stitch(parts)
        expect(text.split(' ')).toEqual(spoken.map(({ text }) => text))
        expect(words.map(({ word }) => word)).toEqual(spoken.map(({ text }) => text))
        for (const [index, { startMs, endMs }] of spoken.entries()) {
          expect(Math.abs((words[index]?.start ?? -1) * 1000 - startMs)).toBeLessThanOrEqual(0.001)
          expect(Math.abs((words[index]?.end ?? -1) * 1000 - endMs)).toBeLessThanOrEqual(0.001)
        }
      }),
    )
  })
})
