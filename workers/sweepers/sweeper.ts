import type { Logger } from '#shared/runtime/logger.ts'

/** One periodic task. `run` returns how many items it handled; every worker may run it concurrently. */
export interface Sweep {
  readonly name: string
  /** Least time between the starts of two runs, for expensive sweeps. */
  readonly leastIntervalMs?: number
  /** The most items of one run. After a full run the next one follows in the same round. */
  readonly batch?: number
  run(): Promise<number>
}

const LONGEST_INTERVAL_MS = 1000
const SWEEPS_PER_LEASE = 15

/** Returns how often sweeps run: what a lost message or a crash left behind waits a second, or less where leases are short. */
export function sweepIntervalMs(leaseMs: number): number {
  return Math.min(LONGEST_INTERVAL_MS, leaseMs / SWEEPS_PER_LEASE)
}

/** A round that would take longer continues at the next interval, so that its log line and a stop are not delayed. */
export const LONGEST_ROUND_MS = 10_000

/**
 * Runs each sweep every `intervalMs`, or less often if it asks for that, and never twice concurrently. A sweep that
 * finds full batches continues, so that work cannot arrive faster than it is done. Logs failures and retries.
 */
export function startSweepers(sweeps: readonly Sweep[], intervalMs: number, logger: Logger): { stop(): Promise<void> } {
  const running = new Set<Promise<void>>()
  let isStopping = false
  const timers = sweeps.map((sweep) => {
    const { leastIntervalMs = 0 } = sweep
    let busy = false
    let startedAt = Number.NEGATIVE_INFINITY
    return setInterval(() => {
      if (busy || performance.now() - startedAt < leastIntervalMs) return
      busy = true
      startedAt = performance.now()
      const round = runRound(sweep, logger, () => isStopping).finally(() => {
        busy = false
        running.delete(round)
      })
      running.add(round)
    }, intervalMs)
  })
  return {
    stop: async () => {
      isStopping = true
      for (const timer of timers) clearInterval(timer)
      await Promise.all(running)
    },
  }
}

async function runRound(sweep: Sweep, logger: Logger, isStopping: () => boolean): Promise<void> {
  const { name, batch = Number.POSITIVE_INFINITY } = sweep
  const startedAt = performance.now()
  let total = 0
  try {
    for (let count = batch; count >= batch;) {
      count = await sweep.run()
      total += count
      if (isStopping() || performance.now() - startedAt >= LONGEST_ROUND_MS) break
    }
  } catch (error) {
    logger.warn(`${name} failed`, { error })
  }
  if (total > 0) logger.info(name, { count: total })
}
