import { createDiskObjectStore, requireFolder } from '#shared/adapters/disk/disk-store.ts'
import type { ObjectUser } from '#shared/media/object-access.ts'
import type { ObjectStoreSettings } from '#shared/media/object-store-settings.ts'
import type { OpenedArchive, OpenedObjectStore } from '#shared/media/object-store.ts'
import { namingSetting } from '#shared/runtime/start-process.ts'

/** Opens the store of media for the archive, whose objects have a prefix of their own. */
export async function openArchive(settings: ObjectStoreSettings): Promise<OpenedArchive> {
  const { OBJECT_STORE_DIRECTORY: directory, S3_BUCKET: bucket } = settings
  if (directory !== undefined) {
    await namingSetting('OBJECT_STORE_DIRECTORY', () => requireFolder(directory))
    return { objects: createDiskObjectStore(directory), findExpiringRule: async () => null, close: () => undefined }
  }
  if (bucket === undefined) throw new Error('set either OBJECT_STORE_DIRECTORY or S3_BUCKET')
  const { openS3Archive } = await import('#shared/adapters/s3/open-archive.ts')
  return await openS3Archive({ ...settings, S3_BUCKET: bucket })
}

/**
 * Opens the store that the settings name. Throws one error that names the setting when it cannot be used. One that
 * cannot be reached yet is opened nevertheless: `onError` receives the failure of each further attempt.
 */
export async function openObjectStore(
  settings: ObjectStoreSettings,
  user: ObjectUser,
  onError: (error: Error) => void,
): Promise<OpenedObjectStore> {
  const { OBJECT_STORE_DIRECTORY: directory, S3_BUCKET: bucket } = settings
  if (directory !== undefined) {
    const check = () => namingSetting('OBJECT_STORE_DIRECTORY', () => requireFolder(directory))
    await check()
    return { objects: createDiskObjectStore(directory), links: null, check, close: () => undefined }
  }
  if (bucket === undefined) throw new Error('set either OBJECT_STORE_DIRECTORY or S3_BUCKET')
  // Loading the SDK takes a tenth of a second and 30 MB, so a process without S3 does not load it.
  const { openS3ObjectStore } = await import('#shared/adapters/s3/open-object-store.ts')
  return await openS3ObjectStore({ ...settings, S3_BUCKET: bucket }, user, onError)
}
