import { type ChosenCue, chooseCues } from './cues/choose-cues.ts'
import { cutAtoms } from './cues/cut-atoms.ts'
import { brokenRules, endOf, type PlacedCue } from './cues/place-cue.ts'
import { readWords, type ShownWord } from './cues/read-words.ts'
import { repairTimes, type WordTimes } from './cues/repair-times.ts'
import { longestMark, speakerLabel } from './cues/shown-text.ts'
import { rulesOf, type SubtitleOptions, type SubtitleRules } from './rules.ts'
import { columnsOf } from './width.ts'
import type { Atom, CueLine, Rule, TranscribedWord, Violation, WrittenCues } from './words.ts'

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
  const times = repairTimes(shown)
  const speakers = new Set(shown.flatMap(({ speaker }) => speaker ?? []))
  const columns = rules.lineColumns - longestMark(speakers, rules)
  const atoms = cutAtoms(shown, times, { language: rules.language, columns })
  const chosen = chooseCues(atoms, rules)
  const faults = faultsByWord(shown, times)
  const violations: Violation[] = []
  const cues = chosen.map((choice, index) => {
    const lines = linesOf(choice, atoms, rules)
    const placed = place(choice, atoms, lines, rules)
    const own = atoms.slice(choice.from, choice.to)
    violations.push(
      ...own.flatMap(({ word }, position): Violation[] => {
        const fault = own[position - 1]?.word === word ? undefined : faults.get(word)
        return fault === undefined ? [] : [{ rule: 'word-times', cue: index, why: fault }]
      }),
      ...brokenRules(placed, rules).map((rule) => ({ rule, cue: index, why: explain(rule, placed, rules) })),
    )
    return { startMs: placed.startMs, endMs: placed.endMs, lines }
  })
  return { cues, violations }
}

function linesOf({ from, to, lineStarts }: ChosenCue, atoms: readonly Atom[], rules: SubtitleRules): CueLine[] {
  const several = atoms.slice(from, to).some(({ speaker }) => speaker !== atoms[from]?.speaker)
  return lineStarts.map((start, index) => {
    const own = atoms.slice(start, lineStarts[index + 1] ?? to)
    const speaker = own[0]?.speaker
    const turns = atoms[start - 1] === undefined || atoms[start - 1]?.speaker !== speaker
    const dash = rules.speakers === 'dash' && several && (turns || start === from) ? rules.dash : ''
    const label = rules.speakers === 'label' && turns && speaker !== undefined ? speakerLabel(speaker, rules) : ''
    const text = own.map((atom, position) => (position === 0 || atom.glued ? '' : ' ') + atom.text).join('')
    return { prefix: dash + label, text, atoms: own, ...(speaker === undefined ? {} : { speaker }) }
  })
}

function place({ from, to }: ChosenCue, atoms: readonly Atom[], lines: readonly CueLine[], rules: SubtitleRules) {
  const startMs = atoms[from]?.startMs ?? 0
  let speechEnd = 0
  let soundEnd = 0
  let columns = 0
  for (const line of lines) {
    const broken = line !== lines[0] && line.atoms[0]?.glued === false
    columns += columnsOf(line.prefix) + columnsOf(line.text) + (broken ? 1 : 0)
    for (const { event, endMs } of line.atoms) {
      soundEnd = Math.max(soundEnd, endMs)
      if (!event) speechEnd = Math.max(speechEnd, endMs)
    }
  }
  const cue = { startMs, nextMs: atoms[to]?.startMs ?? Infinity, speechEnd, columns }
  return { ...cue, endMs: endOf(cue, soundEnd, rules) } satisfies PlacedCue
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
