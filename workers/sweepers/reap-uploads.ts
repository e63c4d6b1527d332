import type { ExecutionStore } from '#shared/jobs/job-store.ts'
import type { ObjectStore } from '#shared/media/object-store.ts'
import { retentionClasses } from '#shared/media/retention.ts'
import type { Sweep } from './sweeper.ts'

const BATCH = 200
/** Looking for strays lists the whole store. They are unreadable at once: their keys were never stored. */
const STRAY_INTERVAL_MS = 60_000

/** Erases what has expired, then deletes the objects that nobody can read any more. */
export function reapUploads({
  store,
  uploads,
}: {
  store: Pick<ExecutionStore, 'eraseExpiredUploads' | 'markUploadsDeleted'>
  uploads: Pick<ObjectStore, 'delete'>
}): Sweep {
  return {
    name: 'deleted staged uploads',
    run: async () => {
      const objectKeys = await store.eraseExpiredUploads(BATCH)
      for (const objectKey of objectKeys) await uploads.delete(objectKey)
      if (objectKeys.length > 0) await store.markUploadsDeleted(objectKeys)
      return objectKeys.length
    },
  }
}

/** Deletes the objects of APIs that died before they could claim the payment: they have no row. */
export function reapStrayUploads({ uploads }: { uploads: Pick<ObjectStore, 'deleteOlderThan'> }): Sweep {
  const { prefix, lifetimeSeconds } = retentionClasses.staged
  return {
    name: 'deleted stray uploads',
    leastIntervalMs: STRAY_INTERVAL_MS,
    run: () => uploads.deleteOlderThan(prefix, lifetimeSeconds * 1000),
  }
}
