import type { RetentionStore } from '#shared/adapters/postgres/retention/retention-store.ts'
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

/** Deletes nonces of expired sign-in challenges, which are only needed to refuse a second use. */
export function forgetUsedSignIns({
  retentionStore,
}: {
  retentionStore: Pick<RetentionStore, 'forgetUsedSignIns'>
}): Sweep {
  return {
    name: 'forgot used sign-ins',
    batch: KEYS_BATCH,
    run: () => retentionStore.forgetUsedSignIns(KEYS_BATCH),
  }
}

/** Deletes expired verdicts on audio. Unpaid uploads leave them too. */
export function forgetInspections({
  retentionStore,
}: {
  retentionStore: Pick<RetentionStore, 'forgetInspections'>
}): Sweep {
  return {
    name: 'forgot expired inspections',
    batch: KEYS_BATCH,
    run: () => retentionStore.forgetInspections(KEYS_BATCH),
  }
}

/** Erases the networks of callers whose uncharged work no longer counts against their network. */
export function forgetNetworks({ retentionStore }: { retentionStore: Pick<RetentionStore, 'forgetNetworks'> }): Sweep {
  return {
    name: 'forgot networks of callers',
    batch: BATCH,
    run: () => retentionStore.forgetNetworks(BATCH),
  }
}
