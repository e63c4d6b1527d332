import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { stitch } from '../../../../client/audio/parts/stitch.ts'
import { textOfWords } from '../../../../client/audio/transcript.ts'
import type { TranscribedWord } from '../../../../client/subtitles/words.ts'

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

describe('stitch', () => {
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
