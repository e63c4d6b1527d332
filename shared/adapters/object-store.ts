import type { ObjectLinks, ObjectStore } from '#shared/media/object-store.ts'
import type { ObjectStoreSettings } from '#shared/media/object-store-settings.ts'
import { createDiskObjectStore } from './disk/object-store.ts'
import { createS3Client, requireBucket } from './s3/client.ts'
import { createS3ObjectLinks, createS3ObjectStore } from './s3/object-store.ts'

export interface OpenedObjectStore {
  readonly objects: ObjectStore
  /** `null` for a folder: only the API can read it. */
  readonly links: ObjectLinks | null
  readonly close: () => void
}

/** Opens the store that the settings name. Throws one error that names the setting when it cannot be used. */
export async function openObjectStore(settings: ObjectStoreSettings): Promise<OpenedObjectStore> {
  const { OBJECT_STORE_DIRECTORY: directory, S3_BUCKET: bucket } = settings
  if (directory !== undefined) return { objects: createDiskObjectStore(directory), links: null, close: () => undefined }
  if (bucket === undefined) throw new Error('set either OBJECT_STORE_DIRECTORY or S3_BUCKET')
  const s3 = { ...settings, S3_BUCKET: bucket }
  const client = createS3Client(s3)
  try {
    await requireBucket(client, s3)
  } catch (error) {
    client.destroy()
    throw error
  }
  return {
    objects: createS3ObjectStore(client, bucket),
    links: createS3ObjectLinks(client, bucket),
    close: () => client.destroy(),
  }
}
