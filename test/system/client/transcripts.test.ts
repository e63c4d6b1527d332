import { describe, expect, it } from 'vitest'
import type { Span } from '../../../client/audio/pack/prepare-packs.ts'
import { takeApart } from '../../../client/audio/pack/take-apart.ts'
import { stitch } from '../../../client/audio/parts/stitch.ts'
import { readTranscript, type Transcript } from '../../../client/audio/transcript.ts'
import { renderTranscript } from '../../../client/batch/output/render-transcript.ts'
import { OUTPUT_FORMATS } from '../../../client/batch/types.ts'
import type { TranscribedWord } from '../../../client/subtitles/subtitles.ts'

const ESCAPES = '\u001b[2J\u001b]0;owned\u0007\u202e\u0000\u0085\u2028'
const OPTIONS = { style: 'netflix', speakers: 'label' } as const
/** Renders as a batch does: joined, taken apart, and in every format. */
function renderAll(words: readonly unknown[], text = 'text') {
  const transcript = readTranscript({ text, language: 'en', words })
  const spans: Span[] = [
    { startMs: 0, endMs: 5000 },
    { startMs: 6000, endMs: 9000 },
  ]
  const stitched = stitch([
    { transcript, offsetMs: 0, durationMs: 10_000 },
    { transcript, offsetMs: 10_000, durationMs: 10_000 },
  ])
  const clips = takeApart(transcript, spans)
  return [transcript, stitched, ...clips].map((one) =>
    renderTranscript(one, OUTPUT_FORMATS, { ...OPTIONS, durationMs: 20_000 }),
  )
}
const word = (changes: Record<string, unknown>): TranscribedWord => ({
  word: 'word',
  start: 1,
  end: 1.5,
  type: 'word',
  ...changes,
})

describe('a hostile transcript', () => {
  it.each<[string, Record<string, unknown>[]]>([
    ['times that are no numbers', [{ start: 'NaN' }, { start: Number.NaN }, { start: '1', end: {} }, { end: [] }]],
    [
      'times beyond all bounds',
      [{ start: 1e300, end: 1e308 }, { start: -1e300 }, { start: Infinity }, { end: -Infinity }],
    ],
    [
      'times that go back',
      [
        { start: 9, end: 1 },
        { start: 5, end: 2 },
        { start: 0, end: 0 },
      ],
    ],
    [
      'missing times',
      [
        { start: null, end: null },
        { start: undefined, end: undefined },
      ],
    ],
    ['words that are no text', [{ word: null }, { word: 5 }, { word: undefined }, { word: {} }, { word: [] }]],
    ['speakers that are no text', [{ speaker: 5 }, { speaker: {} }, { speaker: ESCAPES }, { speaker: ']: x' }]],
    ['characters that are none', [{ characters: 5 }, { characters: [null] }, { characters: [{ text: 1 }] }]],
    ['types that do not exist', [{ type: 'x' }, { type: null }, { type: 5 }]],
    ['members of every object', [{ __proto__: 1 }, { constructor: 1, toString: 1 }]],
  ])('%s do not lose the other words', (_, changes) => {
    const words = [word({ word: 'first' }), ...changes.map(word), word({ word: 'last', start: 8, end: 8.5 })]
    for (const { texts } of renderAll(words).slice(0, 2)) {
      for (const text of texts) {
        expect(text).toContain('first')
        expect(text).toContain('last')
        expect(text).not.toMatch(/NaN|Infinity|undefined|\[object/)
      }
    }
  })

  it.each<[string, unknown[]]>([
    ['items that are no words', [null, 5, 'text', []]],
    ['no words', []],
  ])('%s are left out', (_, items) => {
    const [whole] = renderAll([...items, word({ word: 'last' })])
    expect(whole?.texts.every((text) => text.includes('last'))).toBe(true)
  })

  it('control characters reach no file but as escapes of JSON', () => {
    const words = [
      word({ word: `a${ESCAPES}b`, speaker: `s${ESCAPES}` }),
      word({ word: 'c\n\n1\n00:00:00,000 --> 00:00:09,000\nforged', start: 2, end: 3 }),
    ]
    for (const { texts } of renderAll(words, `text${ESCAPES}`)) {
      for (const text of texts) expect(text).not.toMatch(/(?![\t\n])\p{Cc}|\u202e/u)
    }
    const [whole] = renderAll(words)
    const srt = whole?.texts[OUTPUT_FORMATS.indexOf('srt')] ?? ''
    expect(srt.match(/-->/g)).toHaveLength(srt.match(/^\d+$/gm)?.length ?? 0)
  })

  it('100,000 words of one place in time are written', () => {
    const words = Array.from({ length: 100_000 }, (_, index) =>
      word({ word: `w${index % 10}`, start: index % 3, end: 1 }),
    )
    const transcript = { text: 'text', words } as Transcript
    const { texts } = renderTranscript(transcript, ['txt'], { ...OPTIONS, durationMs: 10_000 })
    expect(texts[0]?.match(/w\d/g)).toHaveLength(100_000)
  })

  it.each([[null], [5], ['text'], [[]], [{}], [{ text: 5 }], [{ words: 5 }], [{ text: null, words: {} }]])(
    'an answer that is no transcription (%j) is an error that says that it is paid for',
    (answer) => {
      expect(() => readTranscript(answer)).toThrow(
        expect.objectContaining({ code: 'transcript_unreadable', money: 'settled' }),
      )
    },
  )

  it.each(['', 'x', '../../etc', 'en-'.repeat(50), '\u0000'])('the language %j changes nothing', (language) => {
    const transcript = readTranscript({ text: 'text', language, words: [word({})] })
    expect(renderTranscript(transcript, OUTPUT_FORMATS, { ...OPTIONS, durationMs: 10_000 }).texts).toHaveLength(
      OUTPUT_FORMATS.length,
    )
  })
})
