import type { SubtitleRules } from '../rules.ts'
import type { Atom, Cue } from '../words.ts'
import { countColumns } from './columns.ts'

/**
 * The fewest rules that any subtitles of a text break: before each atom, and from each atom on. A cue is part of a best
 * solution exactly if the text before it, the cue and the text after it break no more rules than the whole must.
 */
export interface LeastViolations {
  readonly before: readonly number[]
  readonly after: readonly number[]
  readonly total: number
}

/** One atom as this proof sees it. */
interface Piece {
  readonly startMs: number
  readonly speechEndMs: number
  readonly columns: number
  readonly spaceColumns: number
  readonly turns: boolean
  readonly labelColumns: number
}

/**
 * Proves how few rules can be broken, by trying every cue that fits the lines at every place. It shares no code with
 * the writer: lines are filled greedily, ends are tried one by one, and the text is read from both sides.
 */
export function leastViolations(cues: readonly Cue[], rules: SubtitleRules): LeastViolations {
  const pieces = piecesOf(cues, rules)
  const cuesFrom = pieces.map((_, from) => possibleCues(pieces, from, rules))
  const after = Array.from({ length: pieces.length + 1 }, () => 0)
  for (let from = pieces.length - 1; from >= 0; from--) {
    after[from] = Math.min(...(cuesFrom[from] ?? []).map((broken, index) => broken + (after[from + index + 1] ?? 0)))
  }
  const before = Array.from({ length: pieces.length + 1 }, () => Infinity)
  before[0] = 0
  for (const [from, possible] of cuesFrom.entries()) {
    for (const [index, broken] of possible.entries()) {
      const to = from + index + 1
      before[to] = Math.min(before[to] ?? Infinity, (before[from] ?? Infinity) + broken)
    }
  }
  return { before, after, total: after[0] ?? 0 }
}

function piecesOf(cues: readonly Cue[], rules: SubtitleRules): Piece[] {
  const labels = new Map<string, number>()
  for (const { lines } of cues) {
    for (const { prefix, speaker } of lines) {
      if (rules.speakers === 'label' && speaker !== undefined && prefix !== '')
        labels.set(speaker, countColumns(prefix))
    }
  }
  const atoms = cues.flatMap(({ lines }) => lines.flatMap((line) => line.atoms))
  return atoms.map((atom: Atom, index) => {
    const turns = index > 0 && atoms[index - 1]?.speaker !== atom.speaker
    return {
      startMs: atom.startMs,
      speechEndMs: atom.event ? 0 : atom.endMs,
      columns: countColumns(atom.text),
      spaceColumns: atom.glued ? 0 : 1,
      turns,
      labelColumns: (index === 0 || turns) && atom.speaker !== undefined ? (labels.get(atom.speaker) ?? 0) : 0,
    }
  })
}

/** For each cue that begins with a piece, shortest first: how many rules it breaks if it ends at the best time. */
function possibleCues(pieces: readonly Piece[], from: number, rules: SubtitleRules): number[] {
  const dash = rules.speakers === 'dash' ? countColumns(rules.dash) : 0
  const plain = { lines: 0, columns: Infinity }
  const dashed = { lines: 0, columns: Infinity }
  const broken: number[] = []
  let turns = 1
  let read = 0
  let speechEndMs = 0
  for (let index = from; index < pieces.length; index++) {
    const piece = pieces[index] as Piece
    const begins = index === from || piece.turns
    if (index > from && piece.turns) turns++
    append(plain, piece, begins, piece.labelColumns, rules.lineColumns)
    append(dashed, piece, begins, piece.labelColumns + dash, rules.lineColumns)
    if ((turns > 1 ? dashed : plain).lines > rules.maximumLines) break
    read += piece.columns + piece.labelColumns + (index === from ? 0 : piece.spaceColumns)
    speechEndMs = Math.max(speechEndMs, piece.speechEndMs)
    const columns = read + (turns > 1 ? turns * dash : 0)
    const nextMs = pieces[index + 1]?.startMs ?? Infinity
    broken.push(fewestBroken({ startMs: (pieces[from] as Piece).startMs, nextMs, speechEndMs, columns }, rules))
  }
  return broken
}

/** Puts a piece on the last line if it fits there, otherwise on a new one: no other way needs fewer lines. */
function append(
  filled: { lines: number; columns: number },
  piece: Piece,
  begins: boolean,
  mark: number,
  lineColumns: number,
): void {
  const columns = filled.columns + piece.spaceColumns + piece.columns
  if (!begins && columns <= lineColumns) {
    filled.columns = columns
    return
  }
  filled.lines++
  filled.columns = piece.columns + (begins ? mark : 0)
}

/**
 * Tries the ends at which a rule begins or ceases to be kept. A cue never reaches over the start of the next one, and
 * neither the maximum duration nor a gap that there is room for is given up for another rule.
 */
function fewestBroken(
  cue: { startMs: number; nextMs: number; speechEndMs: number; columns: number },
  rules: SubtitleRules,
): number {
  const { startMs, nextMs, speechEndMs, columns } = cue
  const hasRoomForGap = nextMs - rules.gapMs > startMs
  const latest = hasRoomForGap ? Math.min(nextMs - rules.gapMs, startMs + rules.maximumMs) : nextMs
  const readingMs = Math.ceil((columns / rules.columnsPerSecond) * 1000)
  let fewest = Infinity
  for (const wish of [startMs + rules.minimumMs, startMs + readingMs, speechEndMs - rules.toleranceMs, latest]) {
    const endMs = Math.max(startMs + 1, Math.min(wish, latest))
    const duration = endMs - startMs
    let broken = duration < rules.minimumMs ? 1 : 0
    if (columns * 1000 > rules.columnsPerSecond * duration) broken++
    if (endMs < speechEndMs - rules.toleranceMs) broken++
    if (nextMs - endMs < rules.gapMs) broken++
    fewest = Math.min(fewest, broken)
  }
  return fewest
}
