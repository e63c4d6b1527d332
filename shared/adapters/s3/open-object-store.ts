import type { OpenedObjectStore } from '#shared/media/object-store.ts'
import type { S3Settings } from '#shared/media/object-store-settings.ts'
import { createS3Client, requireBucket } from './client.ts'
import { createS3ObjectLinks, createS3ObjectStore } from './object-store.ts'

/** Opens the bucket. Throws one error that names the setting to check when it cannot be used. */
export async function openS3ObjectStore(settings: S3Settings): Promise<OpenedObjectStore> {
  const client = createS3Client(settings)
  try {
    await requireBucket(client, settings)
  } catch (error) {
    client.destroy()
    throw error
  }
  return {
    objects: createS3ObjectStore(client, settings.S3_BUCKET),
    links: createS3ObjectLinks(client, settings.S3_BUCKET),
    close: () => client.destroy(),
  }
}
