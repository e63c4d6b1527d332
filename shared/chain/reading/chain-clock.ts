import type { PublicClient } from 'viem'
import { AppError } from '#shared/errors/app-error.ts'
import { keptFor } from '#shared/runtime/kept-for.ts'
import { headAgeMs, type NodeHead } from '../network/node-head.ts'

/** The clock that deadlines are checked against. */
export interface ChainClock {
  /**
   * Returns the later of the machine's time and the chain's: an authorization that has expired by either must not start
   * work. Throws `payment_network_unavailable` when the network does not answer, or only with old blocks. At most one RPC
   * call per second.
   */
  chainNow(): Promise<Date>
  /**
   * Returns how far the machine's clock is ahead of a block just produced (negative: behind), or `null` before one was
   * seen.
   */
  skewMs(): Promise<number | null>
}

const CACHE_MS = 1000
/** A new block counts as just produced when the previous poll was at most this long ago. */
const FRESH_MS = 5000
const STANDS_STILL =
  'The payment network shows no new blocks, so the payment was neither checked nor used. Nothing was charged.'

/** The latest block, as this process first saw it. */
interface Observation extends NodeHead {
  /** Machine time minus block time at that moment; `null` if the block may have been old by then. */
  readonly skewMs: number | null
}

/**
 * Creates a clock of chain time: the latest block's time plus the time since that block was first seen, or the
 * machine's time if that is later. Block time alone would stand still on an idle chain. While the latest block is older
 * than `maximumHeadAgeMs` there is no chain time to start work by: balances are as old as the block.
 */
export function createChainClock(
  client: PublicClient,
  now: () => Date,
  maximumHeadAgeMs = Number.POSITIVE_INFINITY,
): ChainClock {
  let latest: Observation | null = null
  let polledAt = Number.NEGATIVE_INFINITY
  const read = keptFor(CACHE_MS, async (): Promise<Observation> => {
    try {
      const { number, timestamp } = await client.getBlock()
      const seenAt = performance.now()
      if (latest?.number !== number) {
        const timestampMs = Number(timestamp) * 1000
        const isFresh = latest !== null && number > latest.number && seenAt - polledAt < FRESH_MS
        const aheadMs = now().getTime() - timestampMs
        // A block from the future shows a skew however old it is.
        latest = { number, timestampMs, firstSeenMs: seenAt, skewMs: isFresh || aheadMs < 0 ? aheadMs : null }
      }
      polledAt = seenAt
      return latest
    } catch (cause) {
      throw new AppError('payment_network_unavailable', { cause })
    }
  })
  return {
    chainNow: async () => {
      const observed = await read()
      const ageMs = headAgeMs(observed, now())
      if (ageMs > maximumHeadAgeMs) {
        const cause = new Error(`the newest block is ${Math.round(ageMs / 1000)} s old`)
        throw new AppError('payment_network_unavailable', { message: STANDS_STILL, cause })
      }
      return new Date(Math.max(now().getTime(), observed.timestampMs + performance.now() - observed.firstSeenMs))
    },
    skewMs: async () => (await read()).skewMs,
  }
}
