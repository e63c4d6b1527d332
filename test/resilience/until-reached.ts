import { setTimeout as delay } from 'node:timers/promises'
import { PATIENCE_MS } from '../support/patience.ts'

const POLL_MS = 20

/** Polls until `isReached`. Fails after {@link PATIENCE_MS}. Campaigns run without Vitest too, whose waits they cannot use. */
export async function untilReached(what: string, isReached: () => boolean | Promise<boolean>): Promise<void> {
  for (const giveUpAt = performance.now() + PATIENCE_MS; !(await isReached()); await delay(POLL_MS))
    if (performance.now() > giveUpAt) throw new Error(`it never came to this: ${what}`)
}

/**
 * Polls what `readLeft` finds still to be done until that is nothing, or has been the same for `patienceMs`; returns what is left
 * then. However much there is to do, it is waited for as long as it becomes less.
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
