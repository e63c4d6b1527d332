import type { ClaimedJob } from '#shared/jobs/job.ts'
import type { Written } from '#shared/jobs/job-store.ts'

/**
 * How a step left the job. `moved`: it is in another state now, and stands as `job` says. `finished`: nothing more to do.
 * `later`: it cannot go on now; give it back and try again. `stale`: another worker has it; write nothing more.
 */
export type StepOutcome =
  | { next: 'moved'; job: ClaimedJob }
  | { next: 'finished' | 'stale' }
  | { next: 'later'; delayMs: number; reason: string }

/** After a fenced write that finished the job if it took effect. */
export function finished(written: Written): StepOutcome {
  return { next: written === 'stale' ? 'stale' : 'finished' }
}

/** After a fenced write that left the job as `job` says if it took effect: nobody else writes under its fence. */
export function moved(written: Written, job: ClaimedJob): StepOutcome {
  return written === 'stale' ? { next: 'stale' } : { next: 'moved', job }
}
