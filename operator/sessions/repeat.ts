import { setTimeout as delay } from 'node:timers/promises'

/** Does `work`, which must not throw, at once and again after each interval. */
export function repeatUntilStopped(intervalMs: number, work: () => Promise<void>): { stop(): Promise<void> } {
  const stopping = new AbortController()
  const repeat = async () => {
    do await work()
    while (await elapses(intervalMs, stopping.signal))
  }
  const repeated = repeat()
  return {
    stop: async () => {
      stopping.abort()
      await repeated
    },
  }
}

/** Returns whether the time passed before the signal. */
export async function elapses(milliseconds: number, signal: AbortSignal): Promise<boolean> {
  try {
    await delay(milliseconds, undefined, { signal })
    return true
  } catch {
    return false
  }
}
