import type { RetentionStore } from '#shared/ledger/retention/retention-store.ts'
import type { ObjectStore } from '#shared/media/object-store.ts'
import { MEDIA_CLASSES, type MediaClass, RETENTION_CLASSES } from '#shared/media/retention.ts'
import type { Sweep } from './sweeper.ts'

const OBJECTS_BATCH = 200
const BATCH = 500
/** Keys are small, and anyone can bind them: far more than an API process can bind within a round. */
const KEYS_BATCH = 5000
/** Finding strays lists the whole store. Strays are unreadable from the start: their keys were never stored. */
const STRAY_UPLOADS_INTERVAL_MS = 60_000
/** Nothing depends on when expired rows go, and a round that finds full batches continues. */
const EXPIRED_INTERVAL_MS = 10_000
const LONGEST_FAILING_MS = 10_000
/** Finding strays lists the whole store. */
const STRAY_MEDIA_INTERVAL_MS = 3600 * 1000

interface RetentionDependencies {
  readonly retentionStore: RetentionStore
  readonly uploads: Pick<ObjectStore, 'delete' | 'deleteOlderThan'>
  readonly media: Pick<ObjectStore, 'delete' | 'deleteOlderThan'>
}

/** Returns the sweeps that delete and erase what is kept for a limited time; `retentionMs` is that of results. */
export function retentionSweeps(dependencies: RetentionDependencies, retentionMs: number): readonly Sweep[] {
  const { retentionStore, media } = dependencies
  return [
    reapUploads(dependencies),
    reapStrayUploads(dependencies),
    {
      // To free space. The media route stops serving them at the second of expiry.
      name: 'deleted expired media',
      leastIntervalMs: EXPIRED_INTERVAL_MS,
      batch: OBJECTS_BATCH,
      run: inPasses(async (kept) => {
        const objectKeys = await retentionStore.findExpiredMedia(OBJECTS_BATCH, kept)
        return await deleteEach(media, objectKeys, (deleted) => retentionStore.markMediaDeleted(deleted))
      }),
    },
    ...MEDIA_CLASSES.map((mediaClass) => reapStrayMedia(dependencies, mediaClass)),
    {
      // A replay then returns 410 with the id of the receipt.
      name: 'erased results past their retention',
      leastIntervalMs: EXPIRED_INTERVAL_MS,
      batch: BATCH,
      run: () => retentionStore.expireResults(retentionMs, BATCH),
    },
    {
      // Idempotency keys that were challenged and never paid for.
      name: 'forgot expired challenges',
      leastIntervalMs: EXPIRED_INTERVAL_MS,
      batch: KEYS_BATCH,
      run: () => retentionStore.forgetExpiredChallenges(KEYS_BATCH),
    },
    {
      // Verdicts on audio. Unpaid uploads leave them too.
      name: 'forgot expired inspections',
      leastIntervalMs: EXPIRED_INTERVAL_MS,
      batch: KEYS_BATCH,
      run: () => retentionStore.forgetInspections(KEYS_BATCH),
    },
    {
      // Permits that waited for a charge of their owner until their deadline.
      name: 'forgot expired permits',
      leastIntervalMs: EXPIRED_INTERVAL_MS,
      batch: KEYS_BATCH,
      run: () => retentionStore.forgetPermits(KEYS_BATCH),
    },
    forgetNetworks(dependencies),
  ]
}

/**
 * Erases the networks of callers whose uncharged work no longer counts against them. A process first looks at all of that
 * work: none may have run for weeks, or the database is a backup's.
 */
function forgetNetworks({ retentionStore }: Pick<RetentionDependencies, 'retentionStore'>): Sweep {
  let since: 'ever' | 'lately' = 'ever'
  return {
    name: 'forgot networks of callers',
    leastIntervalMs: EXPIRED_INTERVAL_MS,
    batch: BATCH,
    run: async () => {
      const forgotten = await retentionStore.forgetNetworks(BATCH, since)
      if (forgotten < BATCH) since = 'lately'
      return forgotten
    },
  }
}

/** Erases the keys of expired uploads, then deletes their objects. */
export function reapUploads({
  retentionStore,
  uploads,
}: {
  retentionStore: Pick<RetentionStore, 'eraseExpiredUploads' | 'markUploadsDeleted'>
  uploads: Pick<ObjectStore, 'delete'>
}): Sweep {
  return {
    name: 'deleted staged uploads',
    batch: OBJECTS_BATCH,
    run: inPasses(async (kept) => {
      const objectKeys = await retentionStore.eraseExpiredUploads(OBJECTS_BATCH, kept)
      return await deleteEach(uploads, objectKeys, (deleted) => retentionStore.markUploadsDeleted(deleted))
    }),
  }
}

interface Deletions {
  /** Number of the objects of a batch. */
  readonly found: number
  readonly deleted: number
  /** Of those that the store did not delete. */
  readonly errors: readonly unknown[]
}

/**
 * Returns a sweep's run: it deletes the batch behind the objects that the store kept in earlier runs, which are still the
 * first ones, and after the last batch begins again with them. Throws when any of its batch is left.
 */
function inPasses(deleteBatch: (kept: number) => Promise<Deletions>): Sweep['run'] {
  let kept = 0
  return async () => {
    const { found, deleted, errors } = await deleteBatch(kept)
    kept = found < OBJECTS_BATCH ? 0 : kept + errors.length
    if (errors.length === 0) return deleted
    throw new Error(`${found - deleted} of ${found} objects are left, the first error follows`, { cause: errors[0] })
  }
}

/**
 * Deletes objects and marks those that are gone. One that the store keeps, for example under a legal hold, holds no other
 * back; a store that does not answer is asked for a limited time.
 */
async function deleteEach(
  store: Pick<ObjectStore, 'delete'>,
  objectKeys: readonly string[],
  mark: (deleted: readonly string[]) => Promise<void>,
): Promise<Deletions> {
  const deleted: string[] = []
  const errors: unknown[] = []
  const giveUpAt = performance.now() + LONGEST_FAILING_MS
  for (const objectKey of objectKeys) {
    if (errors.length > 0 && performance.now() > giveUpAt) break
    try {
      await store.delete(objectKey)
      deleted.push(objectKey)
    } catch (error) {
      errors.push(error)
    }
  }
  if (deleted.length > 0) await mark(deleted)
  return { found: objectKeys.length, deleted: deleted.length, errors }
}

/** Deletes uploads without a row, left by API processes that died before they could accept the job. */
export function reapStrayUploads({ uploads }: { uploads: Pick<ObjectStore, 'deleteOlderThan'> }): Sweep {
  const { prefix, lifetimeSeconds } = RETENTION_CLASSES.staged
  return {
    name: 'deleted stray uploads',
    leastIntervalMs: STRAY_UPLOADS_INTERVAL_MS,
    run: () => uploads.deleteOlderThan(prefix, lifetimeSeconds * 1000),
  }
}

/** Deletes media without a row, left by workers that died between storing and sealing. */
function reapStrayMedia({ media }: Pick<RetentionDependencies, 'media'>, mediaClass: MediaClass): Sweep {
  // A day longer than the lifetime: by then no result can refer to the object.
  const { prefix, backstopDays } = RETENTION_CLASSES[mediaClass]
  return {
    name: `deleted stray ${mediaClass}`,
    leastIntervalMs: STRAY_MEDIA_INTERVAL_MS,
    run: () => media.deleteOlderThan(prefix, backstopDays * 24 * 3600 * 1000),
  }
}
