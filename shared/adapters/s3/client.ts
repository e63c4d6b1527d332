import { HeadBucketCommand, S3Client, S3ServiceException } from '@aws-sdk/client-s3'
import type { S3Settings } from '#shared/media/object-store-settings.ts'
import { StartFailure } from '#shared/runtime/start-process.ts'

const CONNECT_TIMEOUT_MS = 3000
/** Of one attempt, until the answer begins; 25 MiB are sent in this time at 10 Mbit/s. */
const REQUEST_TIMEOUT_MS = 20_000
/** Of a connection on which nothing moves, also in the middle of an object. */
const IDLE_TIMEOUT_MS = 10_000
/** The first one included; pauses between them are the SDK's. */
const MAXIMUM_ATTEMPTS = 3

/** A client for any store that speaks S3. Close it with `destroy`. */
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
    // We name the checksum of what we store ourselves; the SDK's defaults are not known to every store.
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

/** Throws one error that names the setting to look at when the bucket cannot be used. */
export async function requireBucket(client: S3Client, settings: S3Settings): Promise<void> {
  try {
    await client.send(new HeadBucketCommand({ Bucket: settings.S3_BUCKET }))
  } catch (error) {
    throw new StartFailure(describeBucketFailure(error, settings), { cause: error })
  }
}

/** What is wrong, by the setting that says otherwise. Never quotes a secret. */
export function describeBucketFailure(error: unknown, settings: S3Settings): string {
  const place = settings.S3_ENDPOINT ?? `AWS in ${settings.S3_REGION}`
  switch (statusOf(error)) {
    case 404:
      return `S3_BUCKET: there is no bucket ${settings.S3_BUCKET} at ${place}; npm run bucket:init creates it`
    case 401:
    case 403:
      return `S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY: ${place} refuses them for the bucket ${settings.S3_BUCKET}`
    case 301:
    case 400:
      return `S3_REGION: ${place} does not serve the bucket ${settings.S3_BUCKET} in ${settings.S3_REGION}`
    default:
  }
  const reason = error instanceof Error ? `${error.name}: ${error.message.split('\n', 1)[0]}` : 'unknown'
  return error instanceof Error && error.name === 'CredentialsProviderError'
    ? 'S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY: neither they nor the standard chain give credentials'
    : `S3_ENDPOINT: ${place} cannot be used: ${reason}`
}

/** The HTTP status of a store's refusal; undefined when there was no answer. */
export function statusOf(error: unknown): number | undefined {
  return error instanceof S3ServiceException ? error.$metadata.httpStatusCode : undefined
}
