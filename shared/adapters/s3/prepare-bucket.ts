import {
  CreateBucketCommand,
  GetBucketLifecycleConfigurationCommand,
  PutBucketLifecycleConfigurationCommand,
  type S3Client,
} from '@aws-sdk/client-s3'
import { FULL_ACCESS } from '#shared/media/object-access.ts'
import type { S3Settings } from '#shared/media/object-store-settings.ts'
import { RETENTION_CLASSES } from '#shared/media/retention.ts'
import { ifSupported } from './if-supported.ts'
import { probeKey, probeStore } from './probe-store.ts'
import { blockPublicAccess, isPublic, type PublicAccessBlock } from './public-access.ts'
import { createS3ObjectStore, listOne } from './s3-store.ts'
import { describeStoreFailure, statusOf } from './store-failure.ts'

/** What was done to the bucket. `unsupported`: the store does not know the call. */
export interface BucketPreparation {
  readonly bucket: 'done' | 'already there'
  readonly publicAccessBlock: PublicAccessBlock
  readonly lifecycleRules: 'done' | 'unsupported'
  /** Whether anyone can read or list objects without keys. */
  readonly isPublic: boolean
}

/** One rule for each retention class and its prefix, as a backstop for the service's own exact expiry. */
export const LIFECYCLE_RULES = Object.entries(RETENTION_CLASSES).map(([name, { prefix, backstopDays }]) => ({
  ID: `farebox-${name}`,
  Status: 'Enabled' as const,
  Filter: { Prefix: `${prefix}/` },
  Expiration: { Days: backstopDays },
}))

/**
 * Creates the bucket, blocks public access to it, writes its lifecycle rules, and then tries every operation of the
 * service under each prefix, and that nobody can read without keys; safe to repeat. Throws one error that names the
 * setting to check when the store cannot be used.
 */
export async function prepareBucket(client: S3Client, settings: S3Settings): Promise<BucketPreparation> {
  const Bucket = settings.S3_BUCKET
  try {
    const bucket = (await bucketExists(client, settings)) ? 'already there' : await createBucket(client, settings)
    const publicAccessBlock = await blockPublicAccess(client, Bucket, () => canPut(client, Bucket))
    const lifecycleRules = await ifSupported(
      client.send(
        new PutBucketLifecycleConfigurationCommand({ Bucket, LifecycleConfiguration: { Rules: LIFECYCLE_RULES } }),
      ),
      () => hasRules(client, Bucket),
    )
    await probeStore(client, settings, FULL_ACCESS)
    return { bucket, publicAccessBlock, lifecycleRules, isPublic: await canStrangersRead(client, Bucket) }
  } catch (error) {
    throw describeStoreFailure(error, settings)
  }
}

/** Throws one error that names the setting to check when the store cannot be used. */
export async function bucketExists(client: S3Client, settings: S3Settings): Promise<boolean> {
  const { prefix } = RETENTION_CLASSES.staged
  try {
    // Unlike that of HEAD, its answer has the store's error code.
    await listOne(client, settings.S3_BUCKET, prefix)
    return true
  } catch (error) {
    if (statusOf(error) === 404) return false
    throw describeStoreFailure(error, settings, { operation: 'list', prefix })
  }
}

async function hasRules(client: S3Client, Bucket: string): Promise<boolean> {
  // A bucket without rules is an error too.
  const answer = await client.send(new GetBucketLifecycleConfigurationCommand({ Bucket })).catch(() => null)
  const kept = new Set(answer?.Rules?.map(({ ID }) => ID))
  return LIFECYCLE_RULES.every(({ ID }) => kept.has(ID))
}

async function createBucket(client: S3Client, { S3_BUCKET: Bucket, S3_REGION: region }: S3Settings): Promise<'done'> {
  // AWS rejects its default region as a location constraint.
  const place =
    region === 'us-east-1' ? {} : { CreateBucketConfiguration: { LocationConstraint: region as 'eu-west-1' } }
  await client.send(new CreateBucketCommand({ Bucket, ...place }))
  return 'done'
}

async function canPut(client: S3Client, bucket: string): Promise<boolean> {
  try {
    await withProbe(client, bucket, async () => undefined)
    return true
  } catch (error) {
    if (statusOf(error) === 403) return false
    throw error
  }
}

async function canStrangersRead(client: S3Client, bucket: string): Promise<boolean> {
  return await withProbe(client, bucket, (key) => isPublic(client, bucket, key))
}

async function withProbe<T>(client: S3Client, bucket: string, work: (key: string) => Promise<T>): Promise<T> {
  const objects = createS3ObjectStore(client, bucket)
  const key = probeKey(RETENTION_CLASSES.staged.prefix)
  await objects.put(key, Buffer.from('probe'))
  try {
    return await work(key)
  } finally {
    await objects.delete(key)
  }
}
