import type { Written } from '#shared/jobs/job-store.ts'

/**
 * How a step left the job. `moved`: it is in another state now, look again. `finished`: nothing more to do.
 * `later`: it cannot go on now; give it back and try again. `stale`: another worker has it; write nothing more.
 */
export type StepOutcome = { next: 'moved' | 'finished' | 'stale' } | { next: 'later'; delayMs: number; reason: string }

/** What follows a fenced write: `next` when it took effect. */
export function after(written: Written, next: 'moved' | 'finished'): StepOutcome {
  return { next: written === 'stale' ? 'stale' : next }
}
