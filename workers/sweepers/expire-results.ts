import type { ExecutionStore } from '#shared/jobs/job-store.ts'
import type { Sweep } from './sweeper.ts'

const BATCH = 500

/** Erases results past their retention; a replay then answers 410 with the receipt's id. */
export function expireResults({ store }: { store: Pick<ExecutionStore, 'expireResults'> }, retentionMs: number): Sweep {
  return { name: 'erased results past their retention', run: () => store.expireResults(retentionMs, BATCH) }
}

/** Forgets keys that were challenged and never paid for. */
export function forgetExpiredChallenges({ store }: { store: Pick<ExecutionStore, 'forgetExpiredChallenges'> }): Sweep {
  return { name: 'forgot expired challenges', run: () => store.forgetExpiredChallenges(BATCH) }
}
