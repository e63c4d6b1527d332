import type { RetentionStore } from '#shared/jobs/retention-store.ts'
import type { Sweep } from './sweeper.ts'

const BATCH = 500
/** Keys are small, and anyone can bind them: far more than an API process can bind within a round. */
const KEYS_BATCH = 5000

/** Erases results past their retention; a replay then returns 410 with the id of the receipt. */
export function expireResults(
  { retentionStore }: { retentionStore: Pick<RetentionStore, 'expireResults'> },
  retentionMs: number,
): Sweep {
  return {
    name: 'erased results past their retention',
    batch: BATCH,
    run: () => retentionStore.expireResults(retentionMs, BATCH),
  }
}

/** Deletes idempotency keys that were challenged and never paid for. */
export function forgetExpiredChallenges({
  retentionStore,
}: {
  retentionStore: Pick<RetentionStore, 'forgetExpiredChallenges'>
}): Sweep {
  return {
    name: 'forgot expired challenges',
    batch: KEYS_BATCH,
    run: () => retentionStore.forgetExpiredChallenges(KEYS_BATCH),
  }
}
