import { HeadBucketCommand, S3Client, S3ServiceException } from '@aws-sdk/client-s3'
import type { S3Settings } from '#shared/media/object-store-settings.ts'
import { StartFailure } from '#shared/runtime/start-process.ts'

const CONNECT_TIMEOUT_MS = 3000
/** Limit of one attempt, until the response begins: enough to send 25 MiB at 10 Mbit/s. */
const REQUEST_TIMEOUT_MS = 20_000
/** Limit of a connection without traffic, in the middle of an object too. */
const IDLE_TIMEOUT_MS = 10_000
/** Including the first. The SDK chooses the backoff. */
const MAXIMUM_ATTEMPTS = 3

/** Creates a client for any S3-compatible store. Close it with `destroy`. */
export function createS3Client(settings: S3Settings): S3Client {
  const { S3_ENDPOINT: endpoint, S3_ACCESS_KEY_ID: accessKeyId, S3_SECRET_ACCESS_KEY: secretAccessKey } = settings
  return new S3Client({
    region: settings.S3_REGION,
    forcePathStyle: settings.S3_FORCE_PATH_STYLE,
    maxAttempts: MAXIMUM_ATTEMPTS,
    ...(endpoint === undefined ? {} : { endpoint }),
    ...(accessKeyId === undefined || secretAccessKey === undefined
      ? {}
      : { credentials: { accessKeyId, secretAccessKey } }),
    // `put` sends its own checksum. Not every store supports the SDK's default checksums.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    requestHandler: {
      connectionTimeout: CONNECT_TIMEOUT_MS,
      requestTimeout: REQUEST_TIMEOUT_MS,
      throwOnRequestTimeout: true,
      socketTimeout: IDLE_TIMEOUT_MS,
    },
  })
}

/** Throws one error that names the setting to check when the bucket cannot be used. */
export async function requireBucket(client: S3Client, settings: S3Settings): Promise<void> {
  try {
    await client.send(new HeadBucketCommand({ Bucket: settings.S3_BUCKET }))
  } catch (error) {
    throw new StartFailure(describeBucketFailure(error, settings), { cause: error })
  }
}

/** Describes a failure by the setting that causes it. Never quotes a secret. */
export function describeBucketFailure(error: unknown, settings: S3Settings): string {
  const place = settings.S3_ENDPOINT ?? `AWS in ${settings.S3_REGION}`
  switch (statusOf(error)) {
    case 404:
      return `S3_BUCKET: there is no bucket ${settings.S3_BUCKET} at ${place}; npm run bucket:init creates it`
    case 401:
    case 403:
      return `S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY: ${place} rejects them for the bucket ${settings.S3_BUCKET}`
    case 301:
    case 400:
      return `S3_REGION: ${place} does not serve the bucket ${settings.S3_BUCKET} in ${settings.S3_REGION}`
    default:
  }
  const reason = error instanceof Error ? `${error.name}: ${error.message.split('\n', 1)[0]}` : 'unknown'
  return error instanceof Error && error.name === 'CredentialsProviderError'
    ? 'S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY: neither they nor the AWS SDK’s default chain provide credentials'
    : `S3_ENDPOINT: ${place} cannot be used: ${reason}`
}

/** Returns the HTTP status of the store's error, or undefined when it did not answer. */
export function statusOf(error: unknown): number | undefined {
  return error instanceof S3ServiceException ? error.$metadata.httpStatusCode : undefined
}
