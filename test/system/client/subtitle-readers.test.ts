import { readFileSync } from 'node:fs'
import subsrt from 'subsrt-ts'
import { describe, expect, it } from 'vitest'
import { renderTranscript } from '../../../client/batch/output/render-transcript.ts'
import type { OutputFormat } from '../../../client/batch/types.ts'
import { type Cue, renderSrt, renderTsv, renderVtt, writeCues } from '../../../client/subtitles/subtitles.ts'
import { changedByLibass, literalPictures, picturesOf } from '../../support/client/subtitles/libass.ts'
import { readWithMediaCaptions, readWithPython, readWithSubsrt } from '../../support/client/subtitles/other-readers.ts'
import { readSrt, readVtt, throughFfmpeg } from '../../support/client/subtitles/read-back.ts'
import { folded, LOOK_ALIKES } from '../../support/client/subtitles/shown-cues.ts'
import { codeCues, foldedTexts, SIGNS, sweepOf } from '../../support/client/subtitles/sweep.ts'
import { havePrograms } from '../../support/processes/optional-program.ts'

const hasFfmpeg = havePrograms('ffmpeg')
const hasPython = havePrograms('python3')

const cases: [string, Cue[]][] = [
  ['every two signs', sweepOf(SIGNS, 2)],
  ['codes of many formats', codeCues()],
]
describe.each(cases)('%s', (_, cues) => {
  it.skipIf(!hasFfmpeg).each(['srt', 'vtt'] as const)('are all drawn by libass: %s', (form) => {
    const read = form === 'srt' ? readSrt(renderSrt(cues)) : readVtt(renderVtt(cues))
    expect(read.map(({ text }) => folded(text))).toEqual(foldedTexts(cues))
    expect(changedByLibass(cues, form)).toEqual([])
  })

  it.each(['srt', 'vtt'] as const)('are all read by media-captions and subsrt-ts: %s', async (form) => {
    const file = form === 'srt' ? renderSrt(cues) : renderVtt(cues)
    expect((await readWithMediaCaptions(file, form)).map(folded)).toEqual(foldedTexts(cues))
    expect(readWithSubsrt(file, form).map(folded)).toEqual(foldedTexts(cues))
  })

  it.skipIf(!hasPython)('are all in the table that Python reads', () => {
    const [head, ...rows] = readWithPython(renderTsv(cues))
    expect(head).toEqual(['start', 'end', 'text'])
    const expected = cues.map(({ startMs, endMs }, index) => [
      String(startMs),
      String(endMs),
      foldedTexts(cues)[index]?.replaceAll('\n', ' '),
    ])
    expect(rows.map(([start, end, ...texts]) => [start, end, ...texts.map(folded)])).toEqual(expected)
  })
})

describe('a recording without words', () => {
  const { texts } = renderTranscript({ text: '', words: [] }, ['srt', 'vtt', 'tsv'], { durationMs: 9000 })
  const [srt = '', vtt = '', tsv = ''] = texts

  it.skipIf(!hasFfmpeg)('becomes files that FFmpeg and libass read, and show nothing of', () => {
    const nothing = picturesOf(srt, 'srt', 1)
    expect(nothing).toEqual(picturesOf(vtt, 'vtt', 1))
    expect(nothing).not.toEqual(literalPictures(['x']))
    expect(throughFfmpeg(srt, 'srt', 'text').trim()).toBe('')
  })

  it('becomes files that other readers take for what they are', async () => {
    expect((await readWithMediaCaptions(srt, 'srt')).join('')).toBe('')
    expect(await readWithMediaCaptions(vtt, 'vtt')).toEqual([])
    expect([subsrt.detect(srt), subsrt.detect(vtt)]).toEqual(['srt', 'vtt'])
    expect(readWithSubsrt(srt, 'srt').join('')).toBe('')
    expect(readVtt(vtt)).toEqual([])
    expect(tsv).toBe('start\tend\ttext\n')
  })
})

describe('times after 99:59:59', () => {
  const words = [
    { word: 'Early.', start: 1, end: 2 },
    { word: 'Late.', start: 359_990, end: 359_991 },
    { word: 'Later.', start: 360_001, end: 360_002 },
    { word: 'Latest.', start: 400_000, end: 400_001 },
  ]
  const violationsOf = (formats: readonly OutputFormat[], count = words.length) =>
    renderTranscript({ text: '', words: words.slice(0, count) }, formats, { durationMs: 400_000_000 }).violations
  const late = { rule: 'late', cue: 2, why: expect.stringContaining('99:59:59') as string }

  it('are told of, with the first cue that has one', () => {
    expect([violationsOf(['srt']), violationsOf(['txt', 'vtt'])]).toEqual([[late], [late]])
    expect([violationsOf(['txt', 'tsv', 'json']), violationsOf(['srt', 'vtt'], 2)]).toEqual([[], []])
  })

  it.skipIf(!hasFfmpeg)('are read by FFmpeg, and dropped by the readers that the message is about', async () => {
    const { cues } = writeCues(words)
    expect(readSrt(throughFfmpeg(renderSrt(cues), 'srt', 'copy'))).toHaveLength(4)
    expect(readVtt(throughFfmpeg(renderVtt(cues), 'webvtt', 'copy'))).toHaveLength(4)
    for (const [file, form] of [
      [renderSrt(cues), 'srt'],
      [renderVtt(cues), 'vtt'],
    ] as const) {
      expect(await readWithMediaCaptions(file, form)).toEqual(['Early.', 'Late.'])
      expect(readWithSubsrt(file, form)).toEqual(['Early.', 'Late.'])
    }
  })
})

it('the client’s README lists every sign that is written instead of another', () => {
  const text = readFileSync('client/README.md', 'utf8')
  for (const sign of Object.keys(LOOK_ALIKES)) expect(text).toContain(sign === '\u2060' ? 'U+2060' : sign)
})

it.skipIf(!hasFfmpeg)('the pictures tell every two texts apart, and a code from its characters', () => {
  const texts = sweepOf(SIGNS, 2).flatMap(({ lines: [line, ...others] }) =>
    others.length === 0 && line ? line.text : [],
  )
  expect(new Set(literalPictures(texts)).size).toBe(texts.length)
  const file = '1\n00:00:00,000 --> 00:00:01,000\nsee {name} there\n'
  expect(picturesOf(file, 'srt', 1)).not.toEqual(literalPictures(['see {name} there']))
})
