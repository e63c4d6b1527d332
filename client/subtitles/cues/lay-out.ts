import { DEFAULT_COLUMNS_PER_SECOND, MINIMUM_MS, type SubtitleRules } from '../rules.ts'
import { columnsOf } from '../width.ts'
import type { Atom, CueLine } from '../words.ts'
import { type ChosenCue, chooseCues } from './choose-cues.ts'
import { cutAtoms } from './cut-atoms.ts'
import { endOf, type PlacedCue } from './place-cue.ts'
import type { ShownWord } from './read-words.ts'
import { repairTimes, type WordTimes } from './repair-times.ts'
import { longestMark, speakerLabel } from './shown-text.ts'
import { type Crowd, findCrowds, READABLE_MS_PER_COLUMN, spreadCrowds } from './spread-crowds.ts'

export interface LaidOutCue {
  readonly atoms: readonly Atom[]
  readonly lines: readonly CueLine[]
  readonly placed: PlacedCue
}

export interface LayOut {
  /** The times of the words that the cues were cut by. */
  readonly times: readonly WordTimes[]
  readonly cues: readonly LaidOutCue[]
}

/** Each cuts other cues, which may be too short in their turn. */
const MOST_PASSES = 6

/**
 * Cuts the words into cues by their own times. Crowds of words in cues that nobody could read are spread into the free
 * time around them, and again with more time for cues that are still too short.
 */
export function layOutReadably(words: readonly ShownWord[], rules: SubtitleRules, durationMs = Infinity): LayOut {
  const times = repairTimes(words)
  const crowds = findCrowds(words, times)
  let best = layOut(words, times, rules, Infinity)
  const last = crowds.at(-1)
  if (last === undefined) return best
  const weights = Float64Array.from(words, ({ text }) => Math.max(1, columnsOf(text)))
  const spreading = { words, times, weights, latestMs: durationMs - MINIMUM_MS }
  const touched = new Set<Crowd>()
  let short = shortCues(best, words, crowds, rules)
  let least = lackOf(short)
  for (let pass = 0; pass < MOST_PASSES && short.length > 0; pass++) {
    for (const { neededMs, crowded } of short) {
      const total = crowded.reduce((sum, { word }) => sum + (weights[word] as number), 0)
      const factor = Math.max(1, neededMs / (total * READABLE_MS_PER_COLUMN))
      for (const { word } of crowded) weights[word] = (weights[word] as number) * factor
      for (const { crowd } of crowded) touched.add(crowd)
    }
    const spread = spreadCrowds(crowds, (crowd) => touched.has(crowd), spreading)
    const next = layOut(words, spread, rules, last.end === words.length && touched.has(last) ? durationMs : Infinity)
    short = shortCues(next, words, crowds, rules)
    if (lackOf(short) < least) {
      best = next
      least = lackOf(short)
    }
  }
  return best
}

/** A cue that nobody could read, with those of its words that are in a crowd. */
interface ShortCue {
  /** With the gap after it. */
  readonly neededMs: number
  /** The part of that time that it does not have. */
  readonly lack: number
  readonly crowded: readonly { readonly crowd: Crowd; readonly word: number }[]
}

function shortCues(
  { cues }: LayOut,
  words: readonly ShownWord[],
  crowds: readonly Crowd[],
  { minimumMs, columnsPerSecond, gapMs }: SubtitleRules,
): ShortCue[] {
  const short: ShortCue[] = []
  let word = 0
  let next = 0
  for (const { atoms, placed } of cues) {
    const durationMs = placed.endMs - placed.startMs
    const readingMs = (placed.columns * 1000) / Math.min(columnsPerSecond, DEFAULT_COLUMNS_PER_SECOND)
    const neededMs = Math.max(minimumMs, MINIMUM_MS, readingMs)
    const crowded: { crowd: Crowd; word: number }[] = []
    for (const atom of atoms) {
      while (words[word]?.index !== atom.word) word++
      while ((crowds[next]?.end ?? Infinity) <= word) next++
      const crowd = crowds[next]
      if (crowd !== undefined && crowd.first <= word && crowded.at(-1)?.word !== word) crowded.push({ crowd, word })
    }
    if (durationMs >= neededMs || crowded.length === 0) continue
    short.push({ neededMs: neededMs + gapMs, lack: 1 - durationMs / neededMs, crowded })
  }
  return short
}

function lackOf(short: readonly ShortCue[]): number {
  return short.reduce((sum, { lack }) => sum + lack, 0)
}

/** Lays out by the given times. The last cue ends by `lastEndMs`, if it can be read until then. */
function layOut(
  words: readonly ShownWord[],
  times: readonly WordTimes[],
  rules: SubtitleRules,
  lastEndMs: number,
): LayOut {
  const speakers = new Set(words.flatMap(({ speaker }) => speaker ?? []))
  const columns = rules.lineColumns - longestMark(speakers, rules)
  const atoms = cutAtoms(words, times, { language: rules.language, columns })
  const cues = chooseCues(atoms, rules).map((chosen) => {
    const lines = linesOf(chosen, atoms, rules)
    return { atoms: atoms.slice(chosen.from, chosen.to), lines, placed: place(chosen, atoms, lines, rules, lastEndMs) }
  })
  return { times, cues }
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

function place(
  { from, to }: ChosenCue,
  atoms: readonly Atom[],
  lines: readonly CueLine[],
  rules: SubtitleRules,
  lastEndMs: number,
): PlacedCue {
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
  const endMs = endOf(cue, soundEnd, rules)
  return { ...cue, endMs: to < atoms.length ? endMs : Math.min(endMs, Math.max(lastEndMs, startMs + rules.minimumMs)) }
}
