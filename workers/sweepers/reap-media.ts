import type { ExecutionStore } from '#shared/jobs/job-store.ts'
import type { ObjectStore } from '#shared/media/object-store.ts'
import { mediaClasses, retentionClasses } from '#shared/media/retention.ts'
import type { Sweep } from './sweeper.ts'

const BATCH = 200
/** Looking for strays lists the whole store. */
const STRAY_INTERVAL_MS = 3600 * 1000

/** Deletes expired result media. The route stops serving them to the second; this frees the space afterwards. */
export function reapMedia({
  store,
  media,
}: {
  store: Pick<ExecutionStore, 'findExpiredMedia' | 'markMediaDeleted'>
  media: Pick<ObjectStore, 'delete'>
}): Sweep {
  return {
    name: 'deleted expired media',
    run: async () => {
      const objectKeys = await store.findExpiredMedia(BATCH)
      for (const objectKey of objectKeys) await media.delete(objectKey)
      if (objectKeys.length > 0) await store.markMediaDeleted(objectKeys)
      return objectKeys.length
    },
  }
}

/** Deletes the objects of workers that died between storing and sealing: they have no row. */
export function reapStrayMedia({ media }: { media: Pick<ObjectStore, 'deleteOlderThan'> }): Sweep {
  return {
    name: 'deleted stray media',
    leastIntervalMs: STRAY_INTERVAL_MS,
    run: async () => {
      let strays = 0
      for (const mediaClass of mediaClasses) {
        // A day longer than the lifetime: by then no result can point to the object.
        const { prefix, backstopDays } = retentionClasses[mediaClass]
        strays += await media.deleteOlderThan(prefix, backstopDays * 24 * 3600 * 1000)
      }
      return strays
    },
  }
}
