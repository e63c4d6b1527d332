import { describe, expect, it } from 'vitest'
import {
  type Cue,
  renderJson,
  renderSrt,
  renderText,
  renderTsv,
  renderVtt,
  writeCues,
} from '../../../../client/subtitles/subtitles.ts'
import { readSrt, readVtt, throughFfmpeg } from '../../../support/client/subtitles/read-back.ts'
import { foldedCues, shiftedTogether, shownCues } from '../../../support/client/subtitles/shown-cues.ts'
import { drawWordList } from '../../../support/client/subtitles/word-lists.ts'
import { havePrograms } from '../../../support/processes/optional-program.ts'

const say = (...texts: string[]) => texts.map((word, index) => ({ word, start: index * 2, end: index * 2 + 1.9 }))
const cuesOf = (...texts: string[]) => writeCues(say(...texts), { language: 'en' }).cues
const dialog = [
  { word: 'Ready?', start: 0, end: 0.5, type: 'word', speaker: 'speaker_0' },
  { word: ' ', start: 0.5, end: 0.6, type: 'spacing' },
  { word: '(laughter)', start: 0.6, end: 0.8, type: 'audio_event', speaker: 'speaker_1' },
  { word: ' ', start: 0.8, end: 0.9, type: 'spacing' },
  { word: 'Yes.', start: 0.9, end: 1.5, type: 'word', speaker: 'speaker_1' },
] as const

/** Returns the paragraphs of words that are spoken with a pause after each. */
const paragraphsOf = (words: readonly string[], pauseMs = 0.1) => {
  const timed = words.map((word, index) => ({
    word,
    start: index * (0.5 + pauseMs),
    end: index * (0.5 + pauseMs) + 0.5,
  }))
  return renderText(writeCues(timed, { language: 'en' }).cues)
    .trimEnd()
    .split('\n')
}

const hasFfmpeg = havePrograms('ffmpeg')

describe('renderSrt', () => {
  it('writes numbers, times with a comma and lines, with line feeds and without a byte order mark', () => {
    expect(renderSrt(writeCues(dialog, { language: 'en' }).cues)).toBe(
      '1\n00:00:00,000 --> 00:00:01,500\n-Ready?\n-[laughter] Yes.\n',
    )
  })

  it.skipIf(!hasFfmpeg)('replaces what players take for markup or times, so that FFmpeg shows every character', () => {
    const cues = cuesOf(
      '<b>x</b>',
      '5 < 6 > 4',
      '00:00:01,000 --> 00:00:02,000',
      '{\\an8}up',
      '{y:i}it',
      'C:\\New',
      '42',
    )
    const file = renderSrt(cues)
    expect(foldedCues(readSrt(file))).toEqual(shownCues(cues, 'srt'))
    expect(foldedCues(readSrt(throughFfmpeg(file, 'srt', 'text')))).toEqual(shownCues(cues, 'srt'))
    expect(file.match(/-->/g)).toHaveLength(cues.length)
  })

  it.skipIf(!hasFfmpeg)('writes times of 100 hours and more', () => {
    const { cues } = writeCues([{ word: 'Late.', start: 360_001.5, end: 360_003 }])
    expect(renderSrt(cues)).toContain('100:00:01,500 --> 100:00:03,000')
    expect(foldedCues(readSrt(throughFfmpeg(renderSrt(cues), 'srt', 'copy')))).toEqual(shownCues(cues, 'srt'))
    expect(foldedCues(readVtt(renderVtt(cues)))).toEqual(shownCues(cues, 'vtt'))
  })
})

describe('renderVtt', () => {
  it('escapes markup, so that another parser reads every character', () => {
    const cues = cuesOf('&amp;', '<v Eve>', 'a --> b', 'WEBVTT', 'NOTE')
    const file = renderVtt(cues)
    expect(file).toContain('&amp;amp; &lt;v Eve&gt;')
    expect(foldedCues(readVtt(file))).toEqual(shownCues(cues, 'vtt'))
  })

  it('names speakers in voice tags instead of dashes', () => {
    const file = renderVtt(writeCues(dialog).cues, { voices: true })
    expect(file).toContain('<v Speaker 1>Ready?</v>\n<v Speaker 2>[laughter] Yes.</v>\n')
  })

  it('escapes the name of a speaker', () => {
    const words = [{ word: 'Hi.', start: 0, end: 1, speaker: 'A > B & <C>\n\nWEBVTT' }]
    const file = renderVtt(writeCues(words).cues, { voices: true })
    expect(file).toContain('<v A &gt; B &amp; &lt;C&gt; WEBVTT>Hi.</v>')
  })
})

describe('generated cues', () => {
  it.skipIf(!hasFfmpeg)('are read back equal by FFmpeg and another parser', () => {
    const lists: (readonly Cue[])[] = []
    for (let seed = 500; seed < 560; seed++) {
      const { words, options } = drawWordList(seed)
      lists.push(writeCues(words, options).cues)
    }
    const cues = shiftedTogether(lists)
    expect(foldedCues(readSrt(renderSrt(cues)))).toEqual(shownCues(cues, 'srt'))
    expect(foldedCues(readSrt(throughFfmpeg(renderSrt(cues), 'srt', 'copy')))).toEqual(shownCues(cues, 'srt'))
    expect(foldedCues(readVtt(renderVtt(cues)))).toEqual(shownCues(cues, 'vtt'))
    expect(foldedCues(readVtt(throughFfmpeg(renderVtt(cues), 'webvtt', 'copy')))).toEqual(shownCues(cues, 'vtt'))
    const rows = renderTsv(cues).trimEnd().split('\n')
    expect(rows).toHaveLength(cues.length + 1)
    for (const row of rows) expect(row.split('\t')).toHaveLength(3)
  })
})

describe('renderTsv', () => {
  it('writes the form of Whisper: milliseconds and one line of text', () => {
    expect(renderTsv(writeCues(dialog, { language: 'en' }).cues)).toBe(
      'start\tend\ttext\n0\t1500\t-Ready? -[laughter] Yes.\n',
    )
  })
})

describe('renderText', () => {
  it('writes a paragraph for each turn, with labels if they are asked for', () => {
    expect(renderText(writeCues(dialog).cues)).toBe('Ready?\n[laughter] Yes.\n')
    expect(renderText(writeCues(dialog, { speakers: 'label' }).cues)).toBe(
      '[Speaker 1] Ready?\n[Speaker 2] [laughter] Yes.\n',
    )
  })

  it('ends a paragraph that is too long: with its sentence, else at a pause, else anywhere between two words', () => {
    const sentence = 'The last tram leaves at midnight and nobody waits.'.split(' ')
    const spoken = Array.from({ length: 200 }, () => sentence).flat()
    const sentences = paragraphsOf(spoken)
    expect(sentences.join(' ')).toBe(spoken.join(' '))
    for (const line of sentences) expect(line).toMatch(/waits\.$/)
    expect(Math.max(...sentences.map(({ length }) => length))).toBeLessThan(600)
    const endless = Array.from({ length: 5000 }, () => 'and')
    expect(Math.max(...paragraphsOf(endless).map(({ length }) => length))).toBeLessThan(1510)
    expect(Math.max(...paragraphsOf(endless, 0.3).map(({ length }) => length))).toBeLessThan(1010)
  })

  it('joins the text of all cues as it was spoken, without the breaks of lines and cues', () => {
    const text = 'one two three four five six seven eight nine ten '.repeat(20).trim()
    expect(renderText(cuesOf(...text.split(' ')))).toBe(`${text}\n`)
    expect(renderText(cuesOf(...Array.from('最后一班电车在午夜出发住在河对岸的人都不想在雨中走回家')))).toBe(
      '最后一班电车在午夜出发住在河对岸的人都不想在雨中走回家\n',
    )
  })
})

describe('renderJson', () => {
  it('writes times in seconds, lines with speakers, and the violations', () => {
    const parsed: unknown = JSON.parse(renderJson(writeCues(dialog, { language: 'en' })))
    expect(parsed).toEqual({
      cues: [
        {
          start: 0,
          end: 1.5,
          text: '-Ready?\n-[laughter] Yes.',
          lines: [
            { text: 'Ready?', speaker: 'speaker_0' },
            { text: '[laughter] Yes.', speaker: 'speaker_1' },
          ],
        },
      ],
      violations: [],
    })
  })
})

describe('an empty transcription', () => {
  it('renders to valid files without cues', () => {
    const written = writeCues([])
    expect(written).toEqual({ cues: [], violations: [] })
    expect([renderSrt([]), renderVtt([]), renderTsv([]), renderText([])]).toEqual([
      '1\n00:00:00,000 --> 00:00:00,001\n\n',
      'WEBVTT\n',
      'start\tend\ttext\n',
      '',
    ])
    expect(readVtt(renderVtt([]))).toEqual([])
  })
})
