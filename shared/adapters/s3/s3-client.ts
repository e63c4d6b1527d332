import { S3Client } from '@aws-sdk/client-s3'
import type { S3Settings } from '#shared/media/object-store-settings.ts'

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
