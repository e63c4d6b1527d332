import type { Logger } from '#shared/runtime/logger.ts'

/** One periodic task. `run` returns how many items it handled; every worker may run it concurrently. */
export interface Sweep {
  readonly name: string
  /** Least time between the starts of two runs, for expensive sweeps. */
  readonly leastIntervalMs?: number
  run(): Promise<number>
}

/**
 * Runs each sweep every `intervalMs`, or less often if it asks for that, and never twice concurrently. Logs failures
 * and retries.
 */
export function startSweepers(sweeps: readonly Sweep[], intervalMs: number, logger: Logger): { stop(): Promise<void> } {
  const running = new Set<Promise<void>>()
  const timers = sweeps.map((sweep) => {
    const { leastIntervalMs = 0 } = sweep
    let busy = false
    let startedAt = Number.NEGATIVE_INFINITY
    return setInterval(() => {
      if (busy || performance.now() - startedAt < leastIntervalMs) return
      busy = true
      startedAt = performance.now()
      const round = runOnce(sweep, logger).finally(() => {
        busy = false
        running.delete(round)
      })
      running.add(round)
    }, intervalMs)
  })
  return {
    stop: async () => {
      for (const timer of timers) clearInterval(timer)
      await Promise.all(running)
    },
  }
}

async function runOnce(sweep: Sweep, logger: Logger): Promise<void> {
  try {
    const count = await sweep.run()
    if (count > 0) logger.info(sweep.name, { count })
  } catch (error) {
    logger.warn(`${sweep.name} failed`, { error })
  }
}
