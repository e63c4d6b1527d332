import type { Block } from './latest-block.ts'

/** Blocks that are remembered: enough that one of them was seen right when it came. */
const REMEMBERED = 16
/** Fewer do not show an interval. */
const LEAST_BLOCKS = 3
/** Blocks that were seen longer ago tell nothing about the next one. */
const FORGOTTEN_AFTER_MS = 60_000
/** Blocks that come faster are not worth waiting for. */
const LEAST_INTERVAL_MS = 500

/** The expected times of blocks, by `performance.now()`. */
export interface NextBlock {
  /** The time of the newest block, as far as earlier blocks let expect it. */
  readonly sinceMs: number
  readonly expectedMs: number
}

interface Head {
  readonly number: bigint
  readonly timestampMs: number
  readonly seenMs: number
}

/** The rhythm in which the blocks of a chain come. */
export interface BlockRhythm {
  /** Remembers a new head, seen at `seenMs`. */
  seen(block: Pick<Block, 'number' | 'timestamp'>, seenMs: number): void
  /** Returns when the next block after `nowMs` is expected; `null` while no interval is known. */
  nextBlock(nowMs: number): NextBlock | null
}

/**
 * Creates the estimate of the next block. It is rather too early than too late: those who wait for it would lose a
 * block. The timestamps show the interval; a missed block does not lengthen it. Polling sees most blocks some time
 * after they came, so the one that was seen earliest, in relation to its number, shows when they come.
 */
export function createBlockRhythm(): BlockRhythm {
  let heads: readonly Head[] = []
  return {
    seen: ({ number, timestamp }, seenMs) => {
      // Blocks that a reorganization replaced are forgotten.
      const earlier = heads.filter((head) => head.number < number && seenMs - head.seenMs < FORGOTTEN_AFTER_MS)
      heads = [...earlier.slice(1 - REMEMBERED), { number, timestampMs: Number(timestamp) * 1000, seenMs }]
    },
    nextBlock: (nowMs) => {
      const last = heads.at(-1)
      if (!last || heads.length < LEAST_BLOCKS || nowMs - last.seenMs >= FORGOTTEN_AFTER_MS) return null
      const intervals = intervalsOf(heads)
      const intervalMs = Math.min(...intervals)
      if (intervalMs < LEAST_INTERVAL_MS) return null
      const isRegular = intervals.every((other) => other === intervalMs)
      const cameMs = Math.min(
        ...(isRegular ? heads : [last]).map(({ number, seenMs }) => seenMs + Number(last.number - number) * intervalMs),
      )
      const passed = Math.max(0, Math.floor((nowMs - cameMs) / intervalMs))
      return { sinceMs: cameMs + passed * intervalMs, expectedMs: cameMs + (passed + 1) * intervalMs }
    },
  }
}

/** Returns the time for each block between those that were seen. */
function intervalsOf(heads: readonly Head[]): readonly number[] {
  return heads.slice(1).map(({ number, timestampMs }, index) => {
    const previous = heads[index]
    return previous ? (timestampMs - previous.timestampMs) / Number(number - previous.number) : 0
  })
}
