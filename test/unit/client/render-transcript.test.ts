import { describe, expect, it } from 'vitest'
import { takeApart } from '../../../client/audio/pack/take-apart.ts'
import { stitch } from '../../../client/audio/parts/stitch.ts'
import { readTranscript } from '../../../client/audio/transcript.ts'
import { renderTranscript } from '../../../client/batch/output/render-transcript.ts'

const TEXT = 'The tram leaves at nine. Mind the step, please, and hold on to something while it turns.'
const withoutWords = (result: object = {}) => readTranscript({ text: TEXT, language: 'eng', words: [], ...result })
const rendered = (...formats: Parameters<typeof renderTranscript>[1]) =>
  renderTranscript(withoutWords(), formats, { durationMs: 12_000 }).texts
/** The text of a subtitle file, without times, numbers and marks. */
const textOf = (file = '') =>
  file
    .split('\n')
    .filter((line) => line !== 'WEBVTT' && !line.includes('-->') && !/^\d*$/.test(line))
    .join(' ')

describe('a transcript with text and without words', () => {
  it.each([[[]], [undefined], ['none'], [[7, { word: 7 }]]])(
    'is one whose words were not told when they are %j',
    (words) => {
      expect(withoutWords({ words })).not.toHaveProperty('words')
    },
  )

  it('is a silent recording without text', () => {
    expect(readTranscript({ text: ' ', words: [] })).toMatchObject({ words: [] })
    const [srt = ''] = renderTranscript(readTranscript({ text: '', words: [] }), ['srt'], { durationMs: 9000 }).texts
    expect(textOf(srt).trim()).toBe('')
  })

  it('becomes subtitles of the whole text, spread over the recording', () => {
    const [srt = '', vtt, tsv = ''] = rendered('srt', 'vtt', 'tsv')
    expect([textOf(srt), textOf(vtt)]).toEqual([TEXT, TEXT])
    const rows = tsv.trimEnd().split('\n').slice(1)
    expect(rows.map((row) => row.split('\t')[2]).join(' ')).toBe(TEXT)
    const times = rows.map((row) => row.split('\t').slice(0, 2).map(Number))
    expect(times[0]?.[0]).toBe(0)
    expect(times.at(-1)?.[1]).toBeGreaterThanOrEqual(11_000)
    expect(times.at(-1)?.[1]).toBeLessThanOrEqual(13_000)
    expect(times.every(([start = 0, end = 0], index) => end > start && start >= (times[index - 1]?.[1] ?? 0))).toBe(
      true,
    )
  })

  it('is written as its text, and as JSON without times that nobody told', () => {
    const [txt, json = ''] = rendered('txt', 'json')
    expect(txt).toBe(`${TEXT}\n`)
    expect(JSON.parse(json)).toEqual({ text: TEXT, language: 'eng' })
  })

  it('leaves no part of a recording out of its subtitles', () => {
    const told = readTranscript({ text: 'Hello.', words: [{ word: 'Hello.', start: 0, end: 1 }] })
    const parts = [told, withoutWords()].map((transcript, index) => ({
      transcript,
      offsetMs: index * 6000,
      durationMs: 6000,
    }))
    const [srt] = renderTranscript(stitch(parts), ['srt'], { durationMs: 12_000 }).texts
    expect(textOf(srt)).toBe(`Hello. ${TEXT}`)
  })

  it('cannot be taken apart into the clips of a pack', () => {
    const spans = [{ startMs: 0, endMs: 9000 }] as unknown as Parameters<typeof takeApart>[1]
    expect(() => takeApart(withoutWords(), spans)).toThrow('only by the times of its words')
  })
})
