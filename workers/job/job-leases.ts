import type { LeasedJob } from '#shared/jobs/job.ts'
import type { ExecutionStore } from '#shared/ledger/execution/execution-store.ts'
import type { Logger } from '#shared/runtime/logger.ts'

/** The leases of all jobs of this process. */
export interface JobLeases {
  /** Renews the lease of a leased job until it is released. `signal` aborts when the lease is lost. */
  keep(job: LeasedJob): { readonly signal: AbortSignal; release(): void }
  /** Returns the jobs whose leases are kept, as they were leased. */
  jobs(): readonly LeasedJob[]
}

/** Creates the leases of a process. One statement renews all of them, every third of a lease. */
export function createJobLeases({
  executionStore,
  leaseMs,
  logger,
}: {
  readonly executionStore: ExecutionStore
  readonly leaseMs: number
  readonly logger: Logger
}): JobLeases {
  const kept = new Map<LeasedJob, AbortController>()
  let timer: ReturnType<typeof setInterval> | undefined
  const renew = async () => {
    const jobs = [...kept.keys()]
    try {
      const lost = await executionStore.renewLeases(jobs, leaseMs)
      for (const job of lost) kept.get(job)?.abort()
    } catch (error) {
      // A later renewal may succeed before the leases expire; if none does, the fences decide.
      logger.warn('leases not renewed', { count: jobs.length, error })
    }
  }
  return {
    keep: (job) => {
      const lost = new AbortController()
      kept.set(job, lost)
      timer ??= setInterval(() => void renew(), leaseMs / 3)
      return {
        signal: lost.signal,
        release: () => {
          kept.delete(job)
          if (kept.size > 0) return
          clearInterval(timer)
          timer = undefined
        },
      }
    },
    jobs: () => [...kept.keys()],
  }
}
