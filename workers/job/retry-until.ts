import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from '#shared/runtime/logger.ts'

const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 2000

/**
 * Repeats `work` until it succeeds or `giveUpAt` has passed, for what must not be lost over an outage of a store: a
 * provider's output is in memory only until it is sealed. Throws the last error.
 */
export async function retryUntil<T>(
  { now, logger }: { now: () => Date; logger: Logger },
  what: string,
  giveUpAt: Date,
  work: () => Promise<T>,
): Promise<T> {
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)) {
    try {
      return await work()
    } catch (error) {
      if (now().getTime() + pauseMs >= giveUpAt.getTime()) throw error
      logger.warn(`${what} failed; trying again`, { error })
    }
    await delay(pauseMs)
  }
}
