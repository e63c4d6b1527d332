import type { PublicClient } from 'viem'
import { AppError } from '#shared/errors/app-error.ts'
import type { ChainClock } from '#shared/payment/chain-clock.ts'

const CACHE_MS = 1000
/** A new block counts as just produced when the previous poll was at most this long ago. */
const FRESH_MS = 5000

/** The latest block, as this process first saw it. */
interface Observation {
  readonly blockNumber: bigint
  readonly blockTimeMs: number
  /** Monotonic time at which this block was first seen. */
  readonly seenAt: number
  /** Machine time minus block time at that moment; `null` if the block may have been old by then. */
  readonly skewMs: number | null
}

/**
 * Creates a clock of chain time: the latest block's time plus the time since that block was first seen, or the
 * machine's time if that is later. Block time alone would stand still on an idle chain.
 */
export function createChainClock(client: PublicClient, now: () => Date): ChainClock {
  let latest: Observation | null = null
  let cached: { readonly reading: Promise<Observation>; readonly until: number } | null = null
  let polledAt = Number.NEGATIVE_INFINITY
  const poll = async (): Promise<Observation> => {
    try {
      const { number: blockNumber, timestamp } = await client.getBlock()
      const seenAt = performance.now()
      if (latest?.blockNumber !== blockNumber) {
        const blockTimeMs = Number(timestamp) * 1000
        const isFresh = latest !== null && blockNumber > latest.blockNumber && seenAt - polledAt < FRESH_MS
        const aheadMs = now().getTime() - blockTimeMs
        // A block from the future shows a skew however old it is.
        latest = { blockNumber, blockTimeMs, seenAt, skewMs: isFresh || aheadMs < 0 ? aheadMs : null }
      }
      polledAt = seenAt
      return latest
    } catch (cause) {
      throw new AppError('payment_network_unavailable', { cause })
    }
  }
  const read = async (): Promise<Observation> => {
    if (cached && performance.now() < cached.until) return await cached.reading
    const next = { reading: poll(), until: performance.now() + CACHE_MS }
    cached = next
    next.reading.catch(() => {
      if (cached === next) cached = null
    })
    return await next.reading
  }
  return {
    chainNow: async () => {
      const { blockTimeMs, seenAt } = await read()
      return new Date(Math.max(now().getTime(), blockTimeMs + performance.now() - seenAt))
    },
    skewMs: async () => (await read()).skewMs,
  }
}
