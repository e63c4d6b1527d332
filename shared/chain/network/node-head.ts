import { z } from 'zod'

/** The newest block of a node. */
export interface NodeHead {
  readonly number: bigint
  readonly timestampMs: number
  /** Monotonic time at which this process first saw it. */
  readonly firstSeenMs: number
}

/** A node that is further behind another one than either of these stands still, or nearly does. */
const MOST_BLOCKS_BEHIND = 3n
const MOST_MS_BEHIND = 10_000
/**
 * A younger head is not behind, whatever another node reports: three blocks of Base. Otherwise a node that invents
 * blocks could draw all reads to itself.
 */
const YOUNG_MS = 6000

const quantity = z.templateLiteral(['0x', z.hex().min(1)]).transform(BigInt)
const blockSchema = z.looseObject({ number: quantity, timestamp: quantity })

/** Reads the answer to `eth_getBlockByNumber`. Throws when it is no mined block. */
export function headOf(block: unknown, earlier: NodeHead | null): NodeHead {
  const { number, timestamp } = blockSchema.parse(block)
  const firstSeenMs = earlier?.number === number ? earlier.firstSeenMs : performance.now()
  return { number, timestampMs: Number(timestamp) * 1000, firstSeenMs }
}

/**
 * Returns how old a head is: by the clocks of chain and machine, or by the time since it was first seen, whichever is
 * longer. The first one also finds a node that moves but lags, the second one needs no right clock.
 */
export function headAgeMs({ timestampMs, firstSeenMs }: NodeHead, now: Date): number {
  return Math.max(now.getTime() - timestampMs, performance.now() - firstSeenMs)
}

/** Returns whether a head is behind `other`, which was another node's before this one was read. */
export function isBehind(head: NodeHead, other: NodeHead, now: Date): boolean {
  const isFar = other.number - head.number > MOST_BLOCKS_BEHIND || other.timestampMs - head.timestampMs > MOST_MS_BEHIND
  return isFar && headAgeMs(head, now) > YOUNG_MS
}
