import type { ClaimedJob, Written } from '#shared/jobs/job.ts'

/**
 * The result of a step. `moved`: the job is in another state and looks like `job`. `finished`: nothing more to do.
 * `later`: the job must wait; release it and try again. `stale`: another worker has the job; write nothing more.
 */
export type StepOutcome =
  | { next: 'moved'; job: ClaimedJob }
  | { next: 'finished' | 'stale' }
  | { next: 'later'; delayMs: number; reason: string }

/** Converts a fenced write that finished the job, if it took effect. */
export function finished(written: Written): StepOutcome {
  return { next: written === 'stale' ? 'stale' : 'finished' }
}

/** Converts a fenced write that left the job as `job`, if it took effect: nothing else writes under its fence. */
export function moved(written: Written, job: ClaimedJob): StepOutcome {
  return written === 'stale' ? { next: 'stale' } : { next: 'moved', job }
}
