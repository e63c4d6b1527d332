import type { RetentionStore } from '#shared/adapters/postgres/retention/retention-store.ts'
import type { ObjectStore } from '#shared/media/object-store.ts'
import { MEDIA_CLASSES, RETENTION_CLASSES } from '#shared/media/retention.ts'
import type { Sweep } from './sweeper.ts'

const BATCH = 200
/** Finding strays lists the whole store. */
const STRAY_INTERVAL_MS = 3600 * 1000

/** Deletes expired result media, to free space. The media route stops serving them at the second of expiry. */
export function reapMedia({
  retentionStore,
  media,
}: {
  retentionStore: Pick<RetentionStore, 'findExpiredMedia' | 'markMediaDeleted'>
  media: Pick<ObjectStore, 'delete'>
}): Sweep {
  return {
    name: 'deleted expired media',
    batch: BATCH,
    run: async () => {
      const objectKeys = await retentionStore.findExpiredMedia(BATCH)
      for (const objectKey of objectKeys) await media.delete(objectKey)
      if (objectKeys.length > 0) await retentionStore.markMediaDeleted(objectKeys)
      return objectKeys.length
    },
  }
}

/** Deletes media without a row, left by workers that died between storing and sealing. */
export function reapStrayMedia({ media }: { media: Pick<ObjectStore, 'deleteOlderThan'> }): Sweep {
  return {
    name: 'deleted stray media',
    leastIntervalMs: STRAY_INTERVAL_MS,
    run: async () => {
      let strays = 0
      for (const mediaClass of MEDIA_CLASSES) {
        // A day longer than the lifetime: by then no result can refer to the object.
        const { prefix, backstopDays } = RETENTION_CLASSES[mediaClass]
        strays += await media.deleteOlderThan(prefix, backstopDays * 24 * 3600 * 1000)
      }
      return strays
    },
  }
}
