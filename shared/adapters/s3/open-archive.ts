import { GetBucketLifecycleConfigurationCommand, type LifecycleRule, type S3Client } from '@aws-sdk/client-s3'
import { ARCHIVE_PREFIX } from '#shared/archive/archived-object.ts'
import type { S3Settings } from '#shared/media/object-store-settings.ts'
import type { OpenedArchive } from '#shared/media/object-store.ts'
import { requireBucket } from './probe-store.ts'
import { createS3Client } from './s3-client.ts'
import { createS3ObjectStore } from './s3-store.ts'

/**
 * Opens the bucket for the archive. Throws one error that names the setting to check when the bucket cannot be used. Leaves no
 * probe objects: the archive reads back what it writes, and may have no right to delete.
 */
export async function openS3Archive(settings: S3Settings): Promise<OpenedArchive> {
  const client = createS3Client(settings)
  try {
    await requireBucket(client, settings)
  } catch (error) {
    client.destroy()
    throw error
  }
  return {
    objects: createS3ObjectStore(client, settings.S3_BUCKET),
    findExpiringRule: () => findExpiringRule(client, settings.S3_BUCKET),
    close: () => client.destroy(),
  }
}

async function findExpiringRule(client: S3Client, Bucket: string): Promise<string | null> {
  // A bucket without rules is an error too, as are stores without them, and a missing right to read them.
  const answer = await client.send(new GetBucketLifecycleConfigurationCommand({ Bucket })).catch(() => null)
  const rule = answer?.Rules?.find(expiresArchive)
  return rule === undefined ? null : (rule.ID ?? 'without a name')
}

function expiresArchive({ Status, Expiration, Filter, Prefix }: LifecycleRule): boolean {
  const prefix = Filter?.Prefix ?? Filter?.And?.Prefix ?? Prefix ?? ''
  const objects = `${ARCHIVE_PREFIX}/`
  return Status === 'Enabled' && Expiration !== undefined && (objects.startsWith(prefix) || prefix.startsWith(objects))
}
