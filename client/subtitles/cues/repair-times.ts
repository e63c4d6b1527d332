import { columnsOf } from '../width.ts'
import type { ShownWord } from './read-words.ts'

export interface WordTimes {
  /** Never before the start of the word before. */
  readonly startMs: number
  readonly endMs: number
  /** What is wrong with the stated times. */
  readonly fault?: string
}

/** About 13 characters a second and spaces between words: a normal pace of speech, which can be read. */
export const MS_PER_COLUMN = 75

/**
 * Returns usable times for every word. A start is kept if it is in the longest series of starts that do not go back,
 * so that one wrong time does not move all words after it; the others are spread evenly between their neighbors.
 */
export function repairTimes(words: readonly ShownWord[]): WordTimes[] {
  const kept = longestSeries(words.map(({ statedStart }) => statedStart))
  const columns = words.map(({ text }) => Math.max(1, columnsOf(text)))
  const starts = words.map(({ statedStart }, index) => (kept[index] ? statedStart : NaN))
  for (let first = 0; first < words.length; first++) {
    if (!Number.isNaN(starts[first])) continue
    let end = first
    while (end < words.length && Number.isNaN(starts[end])) end++
    spread(words, starts, columns, first, end)
    first = end
  }
  return words.map((word, index) => {
    const startMs = starts[index] ?? 0
    const fault = faultOf(word, kept[index] ?? false)
    const endIsUsable = kept[index] === true && word.statedEnd >= startMs
    const estimate = startMs + (columns[index] ?? 1) * MS_PER_COLUMN
    const endMs = endIsUsable ? word.statedEnd : Math.max(startMs, Math.min(starts[index + 1] ?? estimate, estimate))
    return { startMs, endMs, ...(fault === undefined ? {} : { fault }) }
  })
}

/** Spreads the words from `first` to `end`, which have no usable start, in proportion to their width. */
function spread(words: readonly ShownWord[], starts: number[], columns: number[], first: number, end: number): void {
  const total = columns.slice(first, end).reduce((sum, width) => sum + width, 0)
  const next = starts[end]
  const before = starts[first - 1]
  const statedEnd = words[first - 1]?.statedEnd ?? NaN
  const afterBefore = before === undefined ? 0 : statedEnd >= before ? statedEnd : before
  const from =
    before === undefined
      ? Math.max(0, (next ?? 0) - total * MS_PER_COLUMN)
      : Math.min(afterBefore, Math.max(before, next ?? afterBefore))
  const room = next === undefined ? total * MS_PER_COLUMN : next - from
  let passed = 0
  for (let index = first; index < end; index++) {
    starts[index] = Math.round(from + (room * passed) / total)
    passed += columns[index] ?? 1
  }
}

function faultOf({ statedStart, statedEnd }: ShownWord, kept: boolean): string | undefined {
  if (Number.isNaN(statedStart)) return 'has no usable start'
  if (!kept) return 'starts out of order'
  if (Number.isNaN(statedEnd)) return 'has no usable end'
  if (statedEnd < statedStart) return 'ends before it starts'
  return statedEnd === statedStart ? 'has no duration' : undefined
}

/** Marks the longest series of values that never decrease, by patience sorting; `NaN` is in none. */
function longestSeries(values: readonly number[]): boolean[] {
  const tails: number[] = []
  const previous = new Int32Array(values.length).fill(-1)
  for (const [index, value] of values.entries()) {
    if (Number.isNaN(value)) continue
    let low = 0
    let high = tails.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((values[tails[middle] ?? 0] ?? 0) <= value) low = middle + 1
      else high = middle
    }
    if (low > 0) previous[index] = tails[low - 1] ?? -1
    tails[low] = index
  }
  const marked = Array.from(values, () => false)
  for (let index = tails.at(-1) ?? -1; index >= 0; index = previous[index] ?? -1) marked[index] = true
  return marked
}
