import type { SubtitleRules } from '../rules.ts'
import type { Atom } from '../words.ts'
import { type BreakCosts, breakCosts } from './break-costs.ts'
import { createLineTable, type LineTable } from './line-table.ts'
import { columnsBetween, type MeasuredAtoms, measureAtoms } from './measure-atoms.ts'
import { countBroken, latestEnd } from './place-cue.ts'

/** Weights of what makes cues read well, in the unit of the break costs. */
const CUE_COST = 14
const CUE_BREAK = 3
/** A pause of this length makes a break before it cost a fifth. */
const PAUSE_MS = 800
const PAUSE_DISCOUNT = 0.8
const UNNOTICED_PAUSE_MS = 500
const PAUSE_INSIDE_MS_PER_COST = 40
const LONGEST_PAUSE_COST = 50
const SENTENCE_INSIDE = { netflix: 16, bbc: 16, plain: 1000 } as const
const SEVERAL_SPEAKERS_COST = 6
const LONE_WORD_COST = 20
const SHORT_CUE_MS = 1300
const SHORT_CUE_COST = 6

/** The atoms of one cue, and the first atom of each of its lines. */
export interface ChosenCue {
  readonly from: number
  readonly to: number
  readonly lineStarts: readonly number[]
}

/** The best way to cut the text before an atom into cues. */
interface Best {
  readonly violations: Int32Array
  readonly costs: Float64Array
  readonly froms: Int32Array
}

/**
 * Cuts the text into cues by dynamic programming: as few broken rules as its times allow, then the lowest cost.
 *
 * A cue appears with its first word and may stay until the next one, so whether it keeps the rules depends on its own
 * atoms and the start of the next atom alone. That makes the result the best of all possible ones.
 */
export function chooseCues(atoms: readonly Atom[], rules: SubtitleRules): ChosenCue[] {
  const measured = measureAtoms(atoms, rules)
  const breaks = breakCosts(atoms, rules.language)
  const table = createLineTable(measured, breaks, rules)
  const best: Best = {
    violations: new Int32Array(atoms.length + 1).fill(2 ** 31 - 1),
    costs: new Float64Array(atoms.length + 1).fill(Infinity),
    froms: new Int32Array(atoms.length + 1).fill(-1),
  }
  best.violations[0] = 0
  best.costs[0] = 0
  for (let from = 0; from < atoms.length; from++) weighCues({ atoms, measured, breaks, table, rules, best }, from)
  return trace(atoms.length, best.froms, measured, table)
}

interface Weighing {
  readonly atoms: readonly Atom[]
  readonly measured: MeasuredAtoms
  readonly breaks: BreakCosts
  readonly table: LineTable
  readonly rules: SubtitleRules
  readonly best: Best
}

/** Weighs every cue that begins with one atom. */
function weighCues({ atoms, measured, breaks, table, rules, best }: Weighing, from: number): void {
  const turnEnd = measured.turnEnds[from] as number
  let speechEnd = 0
  let inside = 0
  let labelColumns = 0
  let speakers = 1
  table.begin(from, false)
  for (let to = from + 1; to <= atoms.length; to++) {
    const last = atoms[to - 1] as Atom
    const turns = to - 1 > from && measured.turns[to - 1] === 1
    if (turns) speakers++
    if (to - 1 === turnEnd) {
      table.begin(from, true)
      for (let atom = from; atom < to - 1; atom++) table.extend()
    }
    const lines = table.extend()
    if (lines === 0) return
    if (!last.event) speechEnd = Math.max(speechEnd, last.endMs)
    labelColumns += measured.labels[to - 1] as number
    if (to - 1 > from) {
      inside += pauseCost(pauseBefore(atoms, to - 1))
      if (breaks.endsSentence[to - 2] === 1 && !turns) inside += SENTENCE_INSIDE[rules.style]
    }
    const startMs = (atoms[from] as Atom).startMs
    const nextMs = atoms[to]?.startMs ?? Infinity
    const dashes = speakers > 1 ? speakers * measured.dashColumns : 0
    const columns = columnsBetween(measured, from, to) + labelColumns + dashes
    const endMs = latestEnd(startMs, nextMs, rules)
    const broken = countBroken({ startMs, endMs, nextMs, speechEnd, columns }, rules)
    const cost =
      CUE_COST +
      inside +
      table.cost(columns) +
      (speakers > 1 ? SEVERAL_SPEAKERS_COST : 0) +
      (endMs - startMs < SHORT_CUE_MS ? SHORT_CUE_COST : 0) +
      (isLoneWord(breaks, measured, from, to) ? LONE_WORD_COST : 0) +
      cueBreakCost(atoms, breaks, to)
    improve(best, from, to, broken, cost)
  }
}

function improve(best: Best, from: number, to: number, broken: number, cost: number): void {
  const violations = (best.violations[from] as number) + broken
  const total = (best.costs[from] as number) + cost
  const known = best.violations[to] as number
  if (violations > known || (violations === known && total >= (best.costs[to] as number))) return
  best.violations[to] = violations
  best.costs[to] = total
  best.froms[to] = from
}

function pauseBefore(atoms: readonly Atom[], index: number): number {
  return Math.max(0, (atoms[index] as Atom).startMs - (atoms[index - 1] as Atom).endMs)
}

function pauseCost(pauseMs: number): number {
  if (pauseMs <= UNNOTICED_PAUSE_MS) return 0
  return Math.min(LONGEST_PAUSE_COST, (pauseMs - UNNOTICED_PAUSE_MS) / PAUSE_INSIDE_MS_PER_COST)
}

function cueBreakCost(atoms: readonly Atom[], breaks: BreakCosts, to: number): number {
  if (to === atoms.length) return 0
  const discount = PAUSE_DISCOUNT * Math.min(1, pauseBefore(atoms, to) / PAUSE_MS)
  return CUE_BREAK * (breaks.before[to] as number) * (1 - discount)
}

/** Whether the cue is a single word of a longer sentence. */
function isLoneWord({ endsSentence }: BreakCosts, { turns, count }: MeasuredAtoms, from: number, to: number): boolean {
  if (to - from !== 1) return false
  const begins = from === 0 || endsSentence[from - 1] === 1 || turns[from] === 1
  const ends = to === count || endsSentence[to - 1] === 1 || turns[to] === 1
  return !begins || !ends
}

function trace(count: number, froms: Int32Array, measured: MeasuredAtoms, table: LineTable): ChosenCue[] {
  const cues: ChosenCue[] = []
  for (let to = count; to > 0;) {
    const from = froms[to] as number
    table.begin(from, to > (measured.turnEnds[from] as number))
    for (let atom = from; atom < to; atom++) table.extend()
    cues.push({ from, to, lineStarts: table.lineStarts() })
    to = from
  }
  return cues.toReversed()
}
