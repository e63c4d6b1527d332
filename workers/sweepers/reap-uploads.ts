import type { ExecutionStore } from '#shared/jobs/job-store.ts'
import type { ObjectStore } from '#shared/media/object-store.ts'
import { retentionClasses } from '#shared/media/retention.ts'
import type { Sweep } from './start-sweepers.ts'

const BATCH = 200
/** Looking for strays lists the whole store. They are unreadable at once: their keys were never stored. */
const STRAY_INTERVAL_MS = 60_000

/** Erases what has expired, then deletes the objects that nobody can read any more, known to the ledger or not. */
export function reapUploads({
  store,
  uploads,
}: {
  store: Pick<ExecutionStore, 'eraseExpiredUploads' | 'markUploadsDeleted'>
  uploads: Pick<ObjectStore, 'delete' | 'deleteOlderThan'>
}): Sweep {
  let straysLookedForAt = 0
  return {
    name: 'deleted staged uploads',
    run: async () => {
      const objectKeys = await store.eraseExpiredUploads(BATCH)
      for (const objectKey of objectKeys) await uploads.delete(objectKey)
      if (objectKeys.length > 0) await store.markUploadsDeleted(objectKeys)
      // Objects of an API that died before it could claim the payment have no row.
      const now = Date.now()
      if (now - straysLookedForAt < STRAY_INTERVAL_MS) return objectKeys.length
      straysLookedForAt = now
      const { prefix, lifetimeSeconds } = retentionClasses.staged
      return objectKeys.length + (await uploads.deleteOlderThan(prefix, lifetimeSeconds * 1000))
    },
  }
}
