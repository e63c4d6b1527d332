import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { type Cue, renderSrt, renderTsv, renderVtt } from '../../../client/subtitles/subtitles.ts'
import { changedByLibass, literalPictures, picturesOf } from '../../support/client/subtitles/libass.ts'
import { readWithMediaCaptions, readWithPython, readWithSubsrt } from '../../support/client/subtitles/other-readers.ts'
import { readSrt, readVtt } from '../../support/client/subtitles/read-back.ts'
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
