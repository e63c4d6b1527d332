import { setTimeout as delay } from 'node:timers/promises'
import { PATIENCE_MS } from '../../support/patience.ts'

const POLL_MS = 20

/** Polls until `isReached`; throws after {@link PATIENCE_MS}. For campaigns, which run without Vitest too. */
export async function untilReached(what: string, isReached: () => boolean | Promise<boolean>): Promise<void> {
  for (const giveUpAt = performance.now() + PATIENCE_MS; !(await isReached()); await delay(POLL_MS))
    if (performance.now() > giveUpAt) throw new Error(`timed out waiting until ${what}`)
}

/**
 * Polls the remaining work until there is none, or until it has not changed for `patienceMs`, and returns what remains.
 * Waits for any amount of work, as long as it decreases.
 */
export async function untilNoneLeft<T>(
  readLeft: () => Promise<readonly T[]>,
  patienceMs = PATIENCE_MS,
): Promise<readonly T[]> {
  let [seen, changedAt] = ['', performance.now()]
  for (;;) {
    const left = await readLeft()
    if (left.length === 0) return left
    const now = JSON.stringify(left)
    if (now !== seen) [seen, changedAt] = [now, performance.now()]
    if (performance.now() - changedAt > patienceMs) return left
    await delay(POLL_MS)
  }
}
