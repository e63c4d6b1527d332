import type { OpenedObjectStore } from '#shared/media/object-store.ts'
import type { ObjectStoreSettings } from '#shared/media/object-store-settings.ts'
import { namingSetting } from '#shared/runtime/start-process.ts'
import { createDiskObjectStore, requireFolder } from './disk/object-store.ts'

/** Opens the store that the settings name. Throws one error that names the setting when it cannot be used. */
export async function openObjectStore(settings: ObjectStoreSettings): Promise<OpenedObjectStore> {
  const { OBJECT_STORE_DIRECTORY: directory, S3_BUCKET: bucket } = settings
  if (directory !== undefined) {
    await namingSetting('OBJECT_STORE_DIRECTORY', () => requireFolder(directory))
    return { objects: createDiskObjectStore(directory), links: null, close: () => undefined }
  }
  if (bucket === undefined) throw new Error('set either OBJECT_STORE_DIRECTORY or S3_BUCKET')
  // Loading the SDK takes a tenth of a second and 30 MB, so a process without S3 does not load it.
  const { openS3ObjectStore } = await import('./s3/open-object-store.ts')
  return await openS3ObjectStore({ ...settings, S3_BUCKET: bucket })
}
