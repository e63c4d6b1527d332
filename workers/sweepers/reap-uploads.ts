import type { ExecutionStore } from '#shared/jobs/job-store.ts'
import type { ObjectStore } from '#shared/media/object-store.ts'
import { STAGED_UPLOAD_LIFETIME_SECONDS } from '#shared/media/staged-upload.ts'
import type { Sweep } from './start-sweepers.ts'

const BATCH = 200

/** Erases what has expired, then deletes the objects that nobody can read any more, known to the ledger or not. */
export function reapUploads({
  store,
  uploads,
}: {
  store: Pick<ExecutionStore, 'eraseExpiredUploads' | 'markUploadsDeleted'>
  uploads: Pick<ObjectStore, 'delete' | 'deleteOlderThan'>
}): Sweep {
  return {
    name: 'deleted staged uploads',
    run: async () => {
      const objectKeys = await store.eraseExpiredUploads(BATCH)
      for (const objectKey of objectKeys) await uploads.delete(objectKey)
      if (objectKeys.length > 0) await store.markUploadsDeleted(objectKeys)
      // Objects of an API that died before it could claim the payment have no row.
      const strays = await uploads.deleteOlderThan('staged', STAGED_UPLOAD_LIFETIME_SECONDS * 1000)
      return objectKeys.length + strays
    },
  }
}
