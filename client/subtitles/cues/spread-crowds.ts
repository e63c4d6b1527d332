import { columnsOf } from '../width.ts'
import type { ShownWord } from './read-words.ts'
import { MS_PER_COLUMN, type WordTimes } from './repair-times.ts'

/**
 * Words that are said to begin at about one moment, as recognizers report them where they lose track
 * (elevenlabs/elevenlabs-python issue 607), or one that ends at once.
 */
export interface Crowd {
  readonly first: number
  /** The word after the last one. */
  readonly end: number
}

/** 50 columns a second, or a few seconds for a word: nobody speaks so fast or so slowly. */
const FASTEST_MS_PER_COLUMN = 20
const SLOWEST_MS_PER_COLUMN = 300
const LONGEST_SHORT_WORD_MS = 2000
/** 20 columns a second can be read, with a space after each word of five. */
export const READABLE_MS_PER_COLUMN = 60
const LOST_TIME = 'has no time of its own'

/**
 * Finds words that begin before the word before them can have been said, and single ones that end at once. A word with a
 * duration ends the crowd of words without one: its time is right.
 */
export function findCrowds(words: readonly ShownWord[], times: readonly WordTimes[]): Crowd[] {
  const crowds: Crowd[] = []
  for (let first = 0; first < words.length; first++) {
    let end = first + 1
    while (end < words.length && isTooSoon(words[end - 1] as ShownWord, startOf(times, end) - startOf(times, end - 1)))
      end++
    const last = end - 1
    if (last > first && isSpoken(words[last]) && !isSpoken(words[last - 1])) end = last
    if (end - first > 1 || isTooShort(words[first] as ShownWord)) crowds.push({ first, end })
    first = end - 1
  }
  return crowds
}

function isSpoken(word: ShownWord | undefined): boolean {
  if (word === undefined || isTooShort(word)) return false
  const longestMs = Math.max(LONGEST_SHORT_WORD_MS, columnsOf(word.text) * SLOWEST_MS_PER_COLUMN)
  return word.statedEnd - word.statedStart <= longestMs
}

function isTooShort({ text, statedStart, statedEnd }: ShownWord): boolean {
  return statedEnd - statedStart < columnsOf(text) * FASTEST_MS_PER_COLUMN
}

function isTooSoon({ text }: ShownWord, afterMs: number): boolean {
  return afterMs < columnsOf(text) * FASTEST_MS_PER_COLUMN
}

/** What is known beside the words' own times. */
export interface Spreading {
  readonly words: readonly ShownWord[]
  readonly times: readonly WordTimes[]
  /** How much of a crowd's time each word takes, in columns at a normal pace. */
  readonly weights: Float64Array
  /** When the last word has to begin, so that it can be read before the recording ends. */
  readonly latestMs: number
}

/**
 * Gives the words of the chosen crowds a normal pace in the free time after them. Where that is too short to be read,
 * they fill it, with the crowds that follow at once, and as much of the free time before as they need. All other words
 * keep their times.
 */
export function spreadCrowds(
  crowds: readonly Crowd[],
  isChosen: (crowd: Crowd) => boolean,
  spreading: Spreading,
): WordTimes[] {
  const spread = [...spreading.times]
  const placed: Crowd[] = []
  for (let index = 0; index < crowds.length; index++) {
    let crowd = crowds[index] as Crowd
    if (!isChosen(crowd)) continue
    while (crowds[index + 1]?.first === crowd.end && isCramped(crowd, spread, spreading)) {
      index++
      crowd = { first: crowd.first, end: (crowds[index] as Crowd).end }
    }
    placed.push(crowd)
    place(crowd, spreading, spread)
    for (;;) {
      const [before, last] = placed.slice(-2)
      if (before === undefined || last === undefined || before.end !== last.first) break
      // Neither needs the other's time, or both were found at one place after all.
      if (!isCramped(before, spread, spreading) && !isCramped(last, spread, spreading)) break
      const joined = { first: before.first, end: last.end }
      placed.splice(-2, 2, joined)
      for (let index = joined.first; index < joined.end; index++) spread[index] = spreading.times[index] as WordTimes
      place(joined, spreading, spread)
    }
  }
  return spread
}

function isCramped({ first, end }: Crowd, spread: readonly WordTimes[], { weights, latestMs }: Spreading): boolean {
  const room = startOf(spread, end, latestMs) - startOf(spread, first)
  return room < weightOf(weights, first, end) * READABLE_MS_PER_COLUMN
}

function place({ first, end }: Crowd, { words, times, weights, latestMs }: Spreading, spread: WordTimes[]): void {
  const total = weightOf(weights, first, end)
  const statedMs = startOf(times, first)
  const hi = Math.max(statedMs, startOf(times, end, latestMs))
  const lo = Math.min(statedMs, spread[first - 1]?.endMs ?? 0)
  const from =
    hi - statedMs >= total * READABLE_MS_PER_COLUMN ? statedMs : Math.max(lo, hi - total * READABLE_MS_PER_COLUMN)
  const pace = Math.min(MS_PER_COLUMN, (hi - from) / total)
  let passed = 0
  for (let index = first; index < end; index++) {
    const startMs = Math.round(from + passed * pace)
    passed += weights[index] as number
    const word = words[index] as ShownWord
    const own = times[index] as WordTimes
    const spokenMs = Math.round(from + passed * pace)
    const mayGoOn = index === end - 1 || word.event
    const endMs = mayGoOn && own.endMs > spokenMs ? own.endMs : spokenMs
    const moved = startMs !== own.startMs || endMs !== own.endMs
    const fault = own.fault ?? (moved ? LOST_TIME : undefined)
    spread[index] = { startMs, endMs, ...(fault === undefined ? {} : { fault }) }
  }
}

function startOf(times: readonly WordTimes[], index: number, otherwise = Infinity): number {
  return times[index]?.startMs ?? otherwise
}

function weightOf(weights: Float64Array, first: number, end: number): number {
  let total = 0
  for (let index = first; index < end; index++) total += weights[index] as number
  return total
}
