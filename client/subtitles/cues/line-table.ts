import type { SubtitleRules } from '../rules.ts'
import type { BreakCosts } from './break-costs.ts'
import { columnsBetween, type MeasuredAtoms } from './measure-atoms.ts'

/** Weights of what makes lines look well, in the unit of the break costs. */
const BALANCE = 20
/** A longer second line hides less of the picture than a longer first one. */
const FIRST_LINE = 1.15
const ORPHAN_COST = 8
const ORPHAN_COLUMNS = 6

/**
 * Finds the best lines of all cues that begin with one atom, by dynamic programming over their ends. The sum of
 * the squares of the widths, above what equal lines would have, makes lines close in length.
 */
export function createLineTable(measured: MeasuredAtoms, breaks: BreakCosts, rules: SubtitleRules) {
  const { lineColumns, maximumLines } = rules
  const { turns, turnEnds, labels, dashColumns } = measured
  let first = 0
  let length = 0
  let dashes = false
  let lines = 0
  // One row for each number of lines, one column for each number of atoms.
  const costs: number[][] = Array.from({ length: maximumLines + 1 }, () => [])
  const choices: number[][] = Array.from({ length: maximumLines + 1 }, () => [])

  const markColumns = (atom: number) => {
    const begins = atom === first || turns[atom] === 1
    return (labels[atom] as number) + (dashes && begins ? dashColumns : 0)
  }

  const lineCost = (from: number, to: number, columns: number, isFirst: boolean) => {
    const share = columns / lineColumns
    const orphan = to - from === 1 && columns <= ORPHAN_COLUMNS ? ORPHAN_COST : 0
    return BALANCE * share * share * (isFirst ? FIRST_LINE : 1) + orphan
  }

  /** Fills the present column of one row: the last line begins at the cheapest place where it fits. */
  function fill(row: number): void {
    const end = first + length
    let best = Infinity
    let choice = -1
    // A single line begins with the cue, and holds one turn.
    const latest = row > 1 ? end - 1 : end <= (turnEnds[first] as number) ? first : -1
    for (let from = latest; from >= first; from--) {
      const columns = columnsBetween(measured, from, end) + markColumns(from)
      if (columns > lineColumns && columnsBetween(measured, from, end) > lineColumns) break
      const before = row === 1 ? 0 : ((costs[row - 1] as number[])[from - first] ?? Infinity)
      if (columns <= lineColumns && before < Infinity) {
        const between = from === first ? 0 : (breaks.before[from] as number)
        const cost = before + between + lineCost(from, end, columns, from === first)
        if (cost < best) {
          best = cost
          choice = from
        }
      }
      if (turns[from] === 1) break
    }
    const rowCosts = costs[row] as number[]
    const rowChoices = choices[row] as number[]
    rowCosts[length] = best
    rowChoices[length] = choice
  }

  return {
    /** Starts over with the cues that begin with an atom; `withDashes` if they have several speakers. */
    begin(atom: number, withDashes: boolean): void {
      first = atom
      length = 0
      lines = 0
      dashes = withDashes
      for (const row of costs) row[0] = Infinity
    },
    /** Appends the next atom. Returns the number of lines, 0 if the cue cannot hold it. */
    extend(): number {
      length++
      for (const row of costs) row[length] = Infinity
      // What needs two lines needs them with one atom more, and text that fits fewer lines is never on more.
      for (let row = Math.max(1, lines); row <= maximumLines; row++) {
        fill(row)
        if (((costs[row] as number[])[length] as number) < Infinity) {
          lines = row
          return row
        }
      }
      return 0
    },
    /** Returns the cost of the lines of the present cue, whose text has so many columns. */
    cost(columns: number): number {
      const share = columns / lineColumns
      return ((costs[lines] as number[])[length] as number) - (BALANCE * share * share) / lines
    },
    /** Returns the first atom of each line of the present cue. */
    lineStarts(): number[] {
      const starts: number[] = []
      let end = length
      for (let row = lines; row > 0; row--) {
        const start = (choices[row] as number[])[end] as number
        starts.unshift(start)
        end = start - first
      }
      return starts
    },
  }
}

export type LineTable = ReturnType<typeof createLineTable>
