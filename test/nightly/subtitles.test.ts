import { describe, expect, it } from 'vitest'
import { type Cue, renderSrt, renderVtt, writeCues } from '../../client/subtitles/subtitles.ts'
import { judgeList } from '../support/client/subtitles/judge-list.ts'
import { readSrt, readVtt, throughFfmpeg } from '../support/client/subtitles/read-back.ts'
import { foldedCues, shiftedTogether, shownCues } from '../support/client/subtitles/shown-cues.ts'
import { drawWordList } from '../support/client/subtitles/word-lists.ts'

const LISTS = 10_000
const FIRST_SEED = 1_000_000
const LISTS_OF_A_FILE = 500
const WORDS_OF_TEN_HOURS = 100_000

describe('10,000 generated word lists', () => {
  it('break no rule but those that their words force, and read back equal in SubRip and WebVTT', () => {
    for (let first = 0; first < LISTS; first += LISTS_OF_A_FILE) {
      const lists: (readonly Cue[])[] = []
      for (let seed = FIRST_SEED + first; seed < FIRST_SEED + first + LISTS_OF_A_FILE; seed++) {
        const { problems, written } = judgeList(drawWordList(seed))
        expect(problems, `seed ${seed}`).toEqual([])
        expect(foldedCues(readSrt(renderSrt(written.cues)))).toEqual(shownCues(written.cues, 'srt'))
        expect(foldedCues(readVtt(renderVtt(written.cues)))).toEqual(shownCues(written.cues, 'vtt'))
        expect(foldedCues(readVtt(renderVtt(written.cues, { voices: true })))).toEqual(
          shownCues(written.cues, 'voices'),
        )
        lists.push(written.cues)
      }
      const cues = shiftedTogether(lists)
      expect(foldedCues(readSrt(throughFfmpeg(renderSrt(cues), 'srt', 'copy')))).toEqual(shownCues(cues, 'srt'))
      expect(foldedCues(readVtt(throughFfmpeg(renderVtt(cues), 'webvtt', 'copy')))).toEqual(shownCues(cues, 'vtt'))
    }
  })
})

describe('ten hours of words', () => {
  it.each(['en', 'zh'])('are cut by the rules: %s', (language) => {
    const texts =
      language === 'en' ? ['The', 'last', 'tram', 'leaves', 'at', 'midnight.'] : Array.from('最后一班电车在午夜出发。')
    const words = Array.from({ length: WORDS_OF_TEN_HOURS }, (_, index) => ({
      word: texts[index % texts.length] as string,
      start: index * 0.36,
      end: index * 0.36 + 0.3,
    }))
    const { cues, violations } = writeCues(words, { language })
    expect(violations).toEqual([])
    expect(cues.flatMap(({ lines }) => lines.flatMap(({ atoms }) => atoms))).toHaveLength(WORDS_OF_TEN_HOURS)
  })
})
