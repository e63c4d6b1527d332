import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { planPacks } from '../../../../client/audio/pack/plan-packs.ts'
import { takeApart } from '../../../../client/audio/pack/take-apart.ts'
import type { TranscribedWord } from '../../../../client/subtitles/words.ts'

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
