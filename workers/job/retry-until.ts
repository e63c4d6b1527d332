import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from '#shared/runtime/logger.ts'

const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 2000

/**
 * Retries `work` until it succeeds or `giveUpAt` has passed, then throws the last error. Used for provider output,
 * which is only in memory until it is sealed and must survive an outage of a store.
 */
export async function retryUntil<T>(
  { now, logger }: { now: () => Date; logger: Logger },
  name: string,
  giveUpAt: Date,
  work: () => Promise<T>,
): Promise<T> {
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)) {
    try {
      return await work()
    } catch (error) {
      if (now().getTime() + pauseMs >= giveUpAt.getTime()) throw error
      logger.warn(`${name} failed; retrying`, { error })
    }
    await delay(pauseMs)
  }
}
