import type { JobOutcome } from '#shared/jobs/job.ts'
import { isUnfinished } from '#shared/jobs/transitions.ts'
import type { AcceptanceStore } from '#shared/ledger/acceptance/acceptance-store.ts'
import type { Logger } from '#shared/runtime/logger.ts'

/** Holds callers until their job is finished. One instance serves all held connections of the process. */
export interface OutcomeAwaiter {
  /**
   * Waits for the final outcome; returns the current one when `signal` aborts. Throws when the ledger cannot be read at
   * the start or at the abort, and as soon as the job's row is found to contradict itself. Skips the first read for a new
   * job, which cannot be finished yet.
   */
  wait(jobId: string, signal: AbortSignal, job?: { readonly isNew: boolean }): Promise<JobOutcome>
  /** Reads the job's row soon if anyone waits for it; safe to call for any id. */
  wake(jobId: string): void
  close(): void
}

interface Dependencies {
  readonly store: Pick<AcceptanceStore, 'readOutcomes'>
  readonly logger: Pick<Logger, 'warn'>
}

/**
 * Creates the awaiter. Notifications trigger a read, a poll over all waiting ids covers lost ones, and only the row
 * decides. Each round is one statement, so thousands of held connections use one connection of the pool.
 */
export function createOutcomeAwaiter({ store, logger }: Dependencies, pollMs: number): OutcomeAwaiter {
  const waiters = new Map<string, Set<(outcome: JobOutcome | Error) => void>>()
  const woken = new Set<string>()
  let reading = false

  async function readWoken(): Promise<void> {
    if (reading) return
    reading = true
    try {
      while (woken.size > 0) {
        const jobIds = [...woken]
        woken.clear()
        for (const [jobId, outcome] of await store.readOutcomes(jobIds)) deliver(jobId, outcome)
      }
    } catch (error) {
      logger.warn('failed to read job outcomes; retrying at the next poll', { error })
    } finally {
      reading = false
    }
  }

  function deliver(jobId: string, outcome: JobOutcome | Error): void {
    if (!(outcome instanceof Error) && isUnfinished(outcome.state)) return
    for (const waiter of waiters.get(jobId) ?? []) waiter(outcome)
    waiters.delete(jobId)
  }

  function wake(jobId: string): void {
    if (!waiters.has(jobId)) return
    woken.add(jobId)
    void readWoken()
  }

  const poll = setInterval(() => {
    for (const jobId of waiters.keys()) woken.add(jobId)
    void readWoken()
  }, pollMs)

  async function wait(jobId: string, signal: AbortSignal, { isNew } = { isNew: false }): Promise<JobOutcome> {
    const finished = Promise.withResolvers<JobOutcome | Error>()
    const stopWaiting = Promise.withResolvers<'aborted'>()
    const onAbort = () => stopWaiting.resolve('aborted')
    signal.addEventListener('abort', onAbort)
    const others = waiters.get(jobId) ?? new Set()
    waiters.set(jobId, others.add(finished.resolve))
    try {
      // Registered before this first read, so that a job finishing in between is not missed.
      const current = isNew ? null : await readOne(jobId)
      if (current && !isUnfinished(current.state)) return current
      const first = signal.aborted ? 'aborted' : await Promise.race([finished.promise, stopWaiting.promise])
      if (first instanceof Error) throw first
      return first === 'aborted' ? await readOne(jobId) : first
    } finally {
      signal.removeEventListener('abort', onAbort)
      others.delete(finished.resolve)
      if (others.size === 0 && waiters.get(jobId) === others) waiters.delete(jobId)
    }
  }

  async function readOne(jobId: string): Promise<JobOutcome> {
    const outcome = (await store.readOutcomes([jobId])).get(jobId)
    if (!outcome) throw new Error(`job ${jobId} is not in the ledger`)
    if (outcome instanceof Error) throw outcome
    return outcome
  }

  return { wait, wake, close: () => clearInterval(poll) }
}
