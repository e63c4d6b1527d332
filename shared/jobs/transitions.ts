import { type JobOutcome, type JobState, jobStates } from './job.ts'

/** Every move a job may make. The store's statements take their guards from here. */
const transitions: Record<JobState, readonly JobState[]> = {
  accepted: ['generating', 'failed'],
  // Again, with the next deployment, after a definite failure of the one before.
  generating: ['generating', 'generated', 'failed'],
  generated: ['settling', 'settlement_failed'],
  settling: ['completed', 'settlement_failed', 'review'],
  // Uncharged: a fresh authorization under the same key may try again.
  failed: ['accepted'],
  // The work is stored: a fresh authorization pays for it without another provider call, or for new work when its hosted
  // media have expired meanwhile.
  settlement_failed: ['generated', 'accepted'],
  completed: [],
  review: [],
}

export function mayMove(from: JobState, to: JobState): boolean {
  return transitions[from].includes(to)
}

/** The states from which `to` may be reached: the guard of the statement that moves a job there. */
export function statesBefore(to: JobState): readonly JobState[] {
  return jobStates.filter((from) => mayMove(from, to))
}

/** Whether a worker still has something to do. */
export function isUnfinished(
  state: JobOutcome['state'],
): state is 'accepted' | 'generating' | 'generated' | 'settling' {
  return state === 'accepted' || state === 'generating' || state === 'generated' || state === 'settling'
}
