import { layOutReadably } from './cues/lay-out.ts'
import { brokenRules, type PlacedCue } from './cues/place-cue.ts'
import { readWords, type ShownWord } from './cues/read-words.ts'
import type { WordTimes } from './cues/repair-times.ts'
import { rulesOf, type SubtitleOptions, type SubtitleRules } from './rules.ts'
import type { Rule, TranscribedWord, Violation, WrittenCues } from './words.ts'

const SHOWN_WORD_LENGTH = 40

const seconds = (milliseconds: number) => `${(milliseconds / 1000).toFixed(3)} s`

/**
 * Writes subtitles from the words of a transcription. All words are in the cues, in their order; rules that the words'
 * own times make impossible to keep are reported.
 *
 * Throws a `RangeError` for options that no text could follow.
 */
export function writeCues(words: readonly TranscribedWord[], options: SubtitleOptions = {}): WrittenCues {
  const rules = rulesOf(words, options)
  const shown = readWords(words)
  const { times, cues: laidOut } = layOutReadably(shown, rules, options.durationMs)
  const faults = faultsByWord(shown, times)
  const violations: Violation[] = []
  const cues = laidOut.map(({ atoms, lines, placed }, index) => {
    violations.push(
      ...atoms.flatMap(({ word }, position): Violation[] => {
        const fault = atoms[position - 1]?.word === word ? undefined : faults.get(word)
        return fault === undefined ? [] : [{ rule: 'word-times', cue: index, why: fault }]
      }),
      ...brokenRules(placed, rules).map((rule) => ({ rule, cue: index, why: explain(rule, placed, rules) })),
    )
    return { startMs: placed.startMs, endMs: placed.endMs, lines }
  })
  return { cues, violations }
}

function faultsByWord(shown: readonly ShownWord[], times: readonly WordTimes[]): ReadonlyMap<number, string> {
  const faults = new Map<number, string>()
  for (const [position, { index, text }] of shown.entries()) {
    const fault = times[position]?.fault
    if (fault === undefined) continue
    const name = text.length > SHOWN_WORD_LENGTH ? `${text.slice(0, SHOWN_WORD_LENGTH).replace(/\p{Cs}/gu, '')}…` : text
    faults.set(index, `word ${index} (${name}) ${fault}`)
  }
  return faults
}

function explain(rule: Rule, cue: PlacedCue, rules: SubtitleRules): string {
  const duration = cue.endMs - cue.startMs
  const room =
    cue.nextMs === Infinity ? '' : `; the next words begin ${seconds(cue.nextMs - cue.startMs)} after its own`
  if (rule === 'minimum-duration') return `${seconds(duration)} instead of ${seconds(rules.minimumMs)}${room}`
  if (rule === 'reading-speed') {
    const speed = ((cue.columns * 1000) / duration).toFixed(1)
    return `${speed} columns a second instead of ${rules.columnsPerSecond}${room}`
  }
  if (rule === 'cut-short') return `it ends ${seconds(cue.speechEnd - cue.endMs)} before its last word does${room}`
  return `${seconds(cue.nextMs - cue.endMs)} to the next cue instead of ${seconds(rules.gapMs)}`
}
