import {
  CreateBucketCommand,
  HeadBucketCommand,
  PutBucketLifecycleConfigurationCommand,
  PutPublicAccessBlockCommand,
  type S3Client,
} from '@aws-sdk/client-s3'
import type { S3Settings } from '#shared/media/object-store-settings.ts'
import { RETENTION_CLASSES } from '#shared/media/retention.ts'
import { describeBucketFailure, statusOf } from './client.ts'

/**
 * Result of one step. `unsupported`: the store does not know this call, so its operator must configure it in another
 * way.
 */
export type Preparation = 'done' | 'already there' | 'would be done' | 'unsupported'

export interface BucketPreparation {
  readonly bucket: Preparation
  readonly publicAccessBlock: Preparation
  readonly lifecycleRules: Preparation
}

/** One rule for each retention class and its prefix, as a backstop for the service's own exact expiry. */
export const LIFECYCLE_RULES = Object.entries(RETENTION_CLASSES).map(([name, { prefix, backstopDays }]) => ({
  ID: `farebox-${name}`,
  Status: 'Enabled' as const,
  Filter: { Prefix: `${prefix}/` },
  Expiration: { Days: backstopDays },
}))

/**
 * Creates the bucket, blocks public access to it and writes its lifecycle rules; safe to repeat. With `dryRun` it only
 * checks whether the bucket exists. Throws one error that names the setting to check when the store cannot be used.
 */
export async function prepareBucket(
  client: S3Client,
  settings: S3Settings,
  { dryRun }: { dryRun: boolean },
): Promise<BucketPreparation> {
  const Bucket = settings.S3_BUCKET
  try {
    const bucket = await createUnlessPresent(client, settings, dryRun)
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
          new PutBucketLifecycleConfigurationCommand({ Bucket, LifecycleConfiguration: { Rules: LIFECYCLE_RULES } }),
        ),
      ),
    }
  } catch (error) {
    throw new Error(describeBucketFailure(error, settings), { cause: error })
  }
}

async function createUnlessPresent(client: S3Client, settings: S3Settings, dryRun: boolean): Promise<Preparation> {
  const { S3_BUCKET: Bucket, S3_REGION: region } = settings
  try {
    await client.send(new HeadBucketCommand({ Bucket }))
    return 'already there'
  } catch (error) {
    if (statusOf(error) !== 404) throw error
  }
  if (dryRun) return 'would be done'
  // AWS rejects its default region as a location constraint.
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
