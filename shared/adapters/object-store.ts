import type { ObjectLinks, ObjectStore } from '#shared/media/object-store.ts'
import type { ObjectStoreSettings } from '#shared/media/object-store-settings.ts'
import { underSetting } from '#shared/runtime/start-process.ts'
import { createDiskObjectStore, requireFolder } from './disk/object-store.ts'

export interface OpenedObjectStore {
  readonly objects: ObjectStore
  /** `null` for a folder: only the API can read it. */
  readonly links: ObjectLinks | null
  readonly close: () => void
}

/** Opens the store that the settings name. Throws one error that names the setting when it cannot be used. */
export async function openObjectStore(settings: ObjectStoreSettings): Promise<OpenedObjectStore> {
  const { OBJECT_STORE_DIRECTORY: directory, S3_BUCKET: bucket } = settings
  if (directory !== undefined) {
    await underSetting('OBJECT_STORE_DIRECTORY', () => requireFolder(directory))
    return { objects: createDiskObjectStore(directory), links: null, close: () => undefined }
  }
  if (bucket === undefined) throw new Error('set either OBJECT_STORE_DIRECTORY or S3_BUCKET')
  // The SDK takes a tenth of a second and 30 MB, which a process without S3 need not spend.
  const { openS3ObjectStore } = await import('./s3/open-object-store.ts')
  return await openS3ObjectStore({ ...settings, S3_BUCKET: bucket })
}
