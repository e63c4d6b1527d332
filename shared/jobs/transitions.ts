import { JOB_STATES, type JobOutcome, type JobState } from './job.ts'

/**
 * Every transition a job may make. The store's statements take their guards from here. A deferral is no transition: the
 * job stays in its state, and each transition ends it.
 */
const TRANSITIONS: Record<JobState, readonly JobState[]> = {
  // review from any state: a restored ledger meets a payment again that was settled since the backup.
  accepted: ['generating', 'failed', 'review'],
  // generating again: with the next deployment, after a definite failure of the previous one.
  generating: ['generating', 'generated', 'failed', 'review'],
  generated: ['settling', 'settlement_failed', 'review'],
  settling: ['completed', 'settlement_failed', 'review'],
  // Uncharged: a new authorization under the same key may try again.
  failed: ['accepted'],
  // The result is stored: a new authorization pays for it without another provider call, or for new work once its
  // hosted media have expired. settling: a reorganization let the failed settlement succeed after all.
  settlement_failed: ['generated', 'accepted', 'settling'],
  completed: [],
  review: [],
}

/** Returns whether a job may move from one state to the other. */
export function mayMove(from: JobState, to: JobState): boolean {
  return TRANSITIONS[from].includes(to)
}

/** Returns the states from which `to` may be reached: the guard of the statement that moves a job there. */
export function statesBefore(to: JobState): readonly JobState[] {
  return JOB_STATES.filter((from) => mayMove(from, to))
}

/** Returns whether a worker still has something to do for the job. */
export function isUnfinished(
  state: JobOutcome['state'],
): state is 'accepted' | 'generating' | 'generated' | 'settling' {
  return state === 'accepted' || state === 'generating' || state === 'generated' || state === 'settling'
}
