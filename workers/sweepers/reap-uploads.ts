import type { RetentionStore } from '#shared/adapters/postgres/retention/retention-store.ts'
import type { ObjectStore } from '#shared/media/object-store.ts'
import { RETENTION_CLASSES } from '#shared/media/retention.ts'
import type { Sweep } from './sweeper.ts'

const BATCH = 200
/** Finding strays lists the whole store. Strays are unreadable from the start: their keys were never stored. */
const STRAY_INTERVAL_MS = 60_000

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
    batch: BATCH,
    run: async () => {
      const objectKeys = await retentionStore.eraseExpiredUploads(BATCH)
      for (const objectKey of objectKeys) await uploads.delete(objectKey)
      if (objectKeys.length > 0) await retentionStore.markUploadsDeleted(objectKeys)
      return objectKeys.length
    },
  }
}

/** Deletes uploads without a row, left by API processes that died before they could accept the job. */
export function reapStrayUploads({ uploads }: { uploads: Pick<ObjectStore, 'deleteOlderThan'> }): Sweep {
  const { prefix, lifetimeSeconds } = RETENTION_CLASSES.staged
  return {
    name: 'deleted stray uploads',
    leastIntervalMs: STRAY_INTERVAL_MS,
    run: () => uploads.deleteOlderThan(prefix, lifetimeSeconds * 1000),
  }
}
