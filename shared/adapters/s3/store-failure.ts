import { S3ServiceException } from '@aws-sdk/client-s3'
import type { ObjectOperation } from '#shared/media/object-access.ts'
import type { S3Settings } from '#shared/media/object-store-settings.ts'
import { isConnectionFailure } from '#shared/runtime/connection-failure.ts'
import { StartFailure } from '#shared/runtime/start-process.ts'

/** An operation under a prefix, which the store refused. */
export interface Attempted {
  readonly operation: ObjectOperation
  readonly prefix: string
}

/** The permission that each operation needs, by its name in a policy. */
const PERMISSIONS: Readonly<Record<ObjectOperation, string>> = {
  put: 's3:PutObject',
  get: 's3:GetObject',
  list: 's3:ListBucket',
  delete: 's3:DeleteObject',
}

const LONGEST_REASON = 200

/**
 * A store that cannot be used, described by the setting to check. Has no `cause`: the SDK attaches the whole exchange
 * to its errors.
 */
export class UnusableStore extends StartFailure {}

/** Describes an error of the store by the setting that causes it. Never quotes a secret. */
export function describeStoreFailure(error: unknown, settings: S3Settings, attempted?: Attempted): UnusableStore {
  if (error instanceof UnusableStore) return error
  const place = placeOf(settings)
  if (isOutage(error)) return new UnusableStore(`S3_ENDPOINT: ${place} cannot be reached: ${reasonOf(error)}`)
  if (error instanceof Error && error.name === 'CredentialsProviderError')
    return new UnusableStore(
      'S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY: neither they nor the AWS SDK’s default chain provide credentials',
    )
  return new UnusableStore(describeAnswer(error, settings, attempted))
}

function describeAnswer(error: unknown, settings: S3Settings, attempted?: Attempted): string {
  const { S3_BUCKET: bucket, S3_REGION: region } = settings
  const place = placeOf(settings)
  const code = error instanceof Error ? error.name : ''
  switch (code) {
    case 'NoSuchBucket':
      return `S3_BUCKET: there is no bucket ${bucket} at ${place}; infra/commands/bucket-init/main.ts creates it`
    case 'BucketAlreadyExists':
      return `S3_BUCKET: the bucket ${bucket} at ${place} belongs to somebody else; choose another name`
    case 'InvalidBucketName':
      return `S3_BUCKET: ${bucket} is not a valid name of a bucket at ${place}`
    case 'InvalidAccessKeyId':
    case 'InvalidToken':
    case 'ExpiredToken':
      return `S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY: ${place} rejects the key id (${code})`
    case 'SignatureDoesNotMatch':
      return `S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY: ${place} rejects the signature; the secret belongs to another key id`
    case 'RequestTimeTooSkewed':
      return `S3_ENDPOINT: this machine's clock differs too much from that of ${place}; synchronize both by NTP`
    case 'AuthorizationHeaderMalformed':
    case 'IllegalLocationConstraintException':
    case 'InvalidLocationConstraint':
    case 'PermanentRedirect':
      return describeRegion(settings)
    default:
  }
  switch (statusOf(error)) {
    case 301:
    case 307:
      return describeRegion(settings)
    case 401:
    case 403:
      return describeRefusal(error, settings, attempted)
    case 404:
      return `S3_BUCKET: there is no bucket ${bucket} at ${place} in ${region}, or S3_FORCE_PATH_STYLE is wrong`
    default:
  }
  const what = attempted === undefined ? 'cannot be used' : `cannot ${attempted.operation} ${objectsUnder(attempted)}`
  return `S3_ENDPOINT: ${place} ${what}: ${reasonOf(error)}`
}

function describeRegion(settings: S3Settings): string {
  return `S3_REGION: ${placeOf(settings)} does not serve the bucket ${settings.S3_BUCKET} in ${settings.S3_REGION}`
}

function describeRefusal(error: unknown, settings: S3Settings, attempted?: Attempted): string {
  const credentials =
    settings.S3_ACCESS_KEY_ID === undefined ? 'the AWS SDK’s default credentials' : 'these credentials'
  const bucket = `the bucket ${settings.S3_BUCKET} at ${placeOf(settings)}`
  const setting = 'S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY'
  if (attempted === undefined) return `${setting}: ${credentials} may not configure ${bucket}: ${reasonOf(error)}`
  const needs = `grant ${PERMISSIONS[attempted.operation]} there`
  return `${setting}: ${credentials} may not ${attempted.operation} ${objectsUnder(attempted)} in ${bucket}; ${needs} (${reasonOf(error)})`
}

function objectsUnder({ prefix }: Attempted): string {
  return `objects under ${prefix}/`
}

function placeOf({ S3_ENDPOINT: endpoint, S3_REGION: region }: S3Settings): string {
  return endpoint ?? `AWS in ${region}`
}

/**
 * Returns the store's code and the first line of its message; Ceph's gateway sends codes only. Of an answer that is not the
 * store's own, such as a proxy's page, the SDK only knows the status: its message is about XML that was never there.
 */
function reasonOf(error: unknown): string {
  if (error instanceof AggregateError && error.message === '') return error.errors.map(reasonOf).join(', ')
  if (!(error instanceof Error)) return 'unknown'
  const status = statusOf(error)
  if (status !== undefined && !hasCode(error)) return `HTTP ${status}, without an answer of S3`
  const message = error.message.split('\n', 1)[0]?.slice(0, LONGEST_REASON) ?? ''
  return message === '' || message === 'UnknownError' ? error.name : `${error.name}: ${message}`
}

function hasCode(error: Error): boolean {
  return error instanceof S3ServiceException && error.name !== 'Unknown' && error.name !== 'NotFound'
}

/** Returns whether the store did not answer, or answered that it cannot at the moment. */
export function isOutage(error: unknown): boolean {
  const status = statusOf(error)
  if (status !== undefined) return status === 429 || (status >= 500 && status !== 501)
  return error instanceof Error && (isConnectionFailure(error) || /^(Timeout|Abort)Error$/.test(error.name))
}

/**
 * Returns the HTTP status of the answer that an error is about, or undefined when there was none. An answer whose body is
 * not S3's own is a plain error of the SDK.
 */
export function statusOf(error: unknown): number | undefined {
  const { $metadata } = Object(error) as { $metadata?: { httpStatusCode?: number } }
  return $metadata?.httpStatusCode
}
