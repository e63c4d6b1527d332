import { createDiskObjectStore, requireFolder } from '#shared/adapters/disk/disk-store.ts'
import type { ObjectUser } from '#shared/media/object-access.ts'
import type { ObjectStoreSettings } from '#shared/media/object-store-settings.ts'
import type { OpenedArchive, OpenedObjectStore } from '#shared/media/object-store.ts'
import { reasonOf } from '#shared/runtime/connection-failure.ts'
import { rarely } from '#shared/runtime/rarely.ts'
import { namingSetting } from '#shared/runtime/start-process.ts'
import { openOnce, untilOpen } from './open-once.ts'

const RETRY_MS = 5000

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
 * Opens the store that the settings name. One that cannot be used yet, for whatever reason, is opened nevertheless, since
 * text needs none: `onError` receives the reasons, each one again only after a while.
 */
export async function openObjectStore(
  settings: ObjectStoreSettings,
  user: ObjectUser,
  onError: (error: Error) => void,
): Promise<OpenedObjectStore> {
  const { OBJECT_STORE_DIRECTORY: directory, S3_BUCKET: bucket } = settings
  const report = rarely(onError, reasonOf)
  if (directory !== undefined) return await openDiskObjectStore(directory, report)
  if (bucket === undefined) throw new Error('set either OBJECT_STORE_DIRECTORY or S3_BUCKET')
  // Loading the SDK takes a tenth of a second and 30 MB, so a process without S3 does not load it.
  const { openS3ObjectStore } = await import('#shared/adapters/s3/open-object-store.ts')
  return await openS3ObjectStore({ ...settings, S3_BUCKET: bucket }, user, report)
}

/** Opens a folder. Without it the process runs nevertheless, as without a bucket: the disk may be mounted later. */
async function openDiskObjectStore(directory: string, onError: (error: Error) => void): Promise<OpenedObjectStore> {
  const check = () => namingSetting('OBJECT_STORE_DIRECTORY', () => requireFolder(directory))
  const closing = new AbortController()
  const trial = openOnce(check)
  await trial.get().catch((error: Error) => {
    onError(error)
    void untilOpen(trial, closing.signal, { retryMs: RETRY_MS, onError })
  })
  return { objects: createDiskObjectStore(directory), links: null, check, close: () => closing.abort() }
}
