import {
  CreateBucketCommand,
  HeadBucketCommand,
  PutBucketLifecycleConfigurationCommand,
  PutPublicAccessBlockCommand,
  type S3Client,
} from '@aws-sdk/client-s3'
import type { S3Settings } from '#shared/media/object-store-settings.ts'
import { retentionClasses } from '#shared/media/retention.ts'
import { describeBucketFailure, statusOf } from './client.ts'

/** `unsupported`: the store does not know this call, and whoever runs it must see to the same in its own way. */
export type Preparation = 'done' | 'already there' | 'would be done' | 'unsupported'

export interface BucketPreparation {
  readonly bucket: Preparation
  readonly publicAccessBlock: Preparation
  readonly lifecycleRules: Preparation
}

/** Each retention class has its own prefix and its own rule: the backstop behind our exact expiry. */
export const lifecycleRules = Object.entries(retentionClasses).map(([name, { prefix, backstopDays }]) => ({
  ID: `farebox-${name}`,
  Status: 'Enabled' as const,
  Filter: { Prefix: `${prefix}/` },
  Expiration: { Days: backstopDays },
}))

/**
 * Creates the bucket, blocks public access to it and writes its lifecycle rules; safe to repeat. With `dryRun` it only looks
 * whether the bucket is there. Throws one error that names the setting when the store cannot be used.
 */
export async function prepareBucket(
  client: S3Client,
  settings: S3Settings,
  { dryRun }: { dryRun: boolean },
): Promise<BucketPreparation> {
  const Bucket = settings.S3_BUCKET
  try {
    const bucket = await createUnlessThere(client, settings, dryRun)
    if (dryRun) return { bucket, publicAccessBlock: 'would be done', lifecycleRules: 'would be done' }
    const blocked = {
      BlockPublicAcls: true,
      IgnorePublicAcls: true,
      BlockPublicPolicy: true,
      RestrictPublicBuckets: true,
    }
    return {
      bucket,
      publicAccessBlock: await ifSupported(
        client.send(new PutPublicAccessBlockCommand({ Bucket, PublicAccessBlockConfiguration: blocked })),
      ),
      lifecycleRules: await ifSupported(
        client.send(
          new PutBucketLifecycleConfigurationCommand({ Bucket, LifecycleConfiguration: { Rules: lifecycleRules } }),
        ),
      ),
    }
  } catch (error) {
    throw new Error(describeBucketFailure(error, settings), { cause: error })
  }
}

async function createUnlessThere(client: S3Client, settings: S3Settings, dryRun: boolean): Promise<Preparation> {
  const { S3_BUCKET: Bucket, S3_REGION: region } = settings
  try {
    await client.send(new HeadBucketCommand({ Bucket }))
    return 'already there'
  } catch (error) {
    if (statusOf(error) !== 404) throw error
  }
  if (dryRun) return 'would be done'
  // AWS refuses to be told its default region.
  const place =
    region === 'us-east-1' ? {} : { CreateBucketConfiguration: { LocationConstraint: region as 'eu-west-1' } }
  await client.send(new CreateBucketCommand({ Bucket, ...place }))
  return 'done'
}

async function ifSupported(work: Promise<unknown>): Promise<Preparation> {
  try {
    await work
    return 'done'
  } catch (error) {
    const status = statusOf(error)
    if (status === 501 || status === 405 || (error instanceof Error && error.name === 'NotImplemented'))
      return 'unsupported'
    throw error
  }
}
