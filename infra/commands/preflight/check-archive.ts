import { openArchive } from '#shared/adapters/open-stores.ts'
import { type RecordedObject, unpackObject } from '#shared/archive/archived-object.ts'
import { createArchiveStore } from '#shared/ledger/archive/archive-store.ts'
import { withConnection } from '#shared/ledger/with-connection.ts'
import type { ObjectStoreSettings } from '#shared/media/object-store-settings.ts'
import { attempted } from './attempted.ts'
import { type Check, passed } from './check.ts'

/** Reads the newest archived object as the API would, if anything is archived. */
export function checkArchive(settings: ObjectStoreSettings & { readonly DATABASE_URL: string }): Promise<Check> {
  const setting = settings.S3_BUCKET === undefined ? 'OBJECT_STORE_DIRECTORY' : 'S3_BUCKET'
  return attempted('archive', setting, async () => {
    const newest = await findNewest(settings.DATABASE_URL)
    if (newest === null) return passed('archive', 'nothing is archived')
    const archive = await openArchive(settings)
    try {
      const lines = await unpackObject(newest, await archive.objects.get(newest.key))
      return passed('archive', `the newest object has its ${lines.length} documents`)
    } finally {
      archive.close()
    }
  })
}

function findNewest(connectionString: string): Promise<RecordedObject | null> {
  return withConnection({ connectionString, applicationName: 'farebox preflight' }, async (pool) => {
    for await (const object of createArchiveStore(pool).listObjects()) return object
    return null
  })
}
