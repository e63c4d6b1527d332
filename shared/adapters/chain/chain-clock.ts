import type { PublicClient } from 'viem'
import { AppError } from '#shared/errors/app-error.ts'
import type { ChainClock } from '#shared/payment/chain-clock.ts'

const KEPT_MS = 1000
/** A block that came within this time of the look before it was seen fresh. */
const FRESH_MS = 5000

interface Sight {
  readonly blockNumber: bigint
  readonly blockTimeMs: number
  /** Monotonic: when this block was first seen. */
  readonly seenAt: number
  /** Machine time minus block time at that moment; `null` for a block that may have been old by then. */
  readonly skewMs: number | null
}

/**
 * Chain time is the latest block's plus what has elapsed since the block was first seen. Without the latter an idle chain would
 * stand still; without the machine's time, a chain whose last block is old.
 */
export function createChainClock(client: PublicClient, now: () => Date): ChainClock {
  let sight: Sight | null = null
  let kept: { readonly reading: Promise<Sight>; readonly until: number } | null = null
  let lookedAt = Number.NEGATIVE_INFINITY
  const look = async (): Promise<Sight> => {
    try {
      const { number: blockNumber, timestamp } = await client.getBlock()
      const seenAt = performance.now()
      if (sight?.blockNumber !== blockNumber) {
        const blockTimeMs = Number(timestamp) * 1000
        const isFresh = sight !== null && blockNumber > sight.blockNumber && seenAt - lookedAt < FRESH_MS
        const aheadMs = now().getTime() - blockTimeMs
        // A block from the future tells of a skew however old it is.
        sight = { blockNumber, blockTimeMs, seenAt, skewMs: isFresh || aheadMs < 0 ? aheadMs : null }
      }
      lookedAt = seenAt
      return sight
    } catch (cause) {
      throw new AppError('payment_network_unavailable', { cause })
    }
  }
  const read = async (): Promise<Sight> => {
    if (kept && performance.now() < kept.until) return await kept.reading
    const next = { reading: look(), until: performance.now() + KEPT_MS }
    kept = next
    next.reading.catch(() => {
      if (kept === next) kept = null
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
