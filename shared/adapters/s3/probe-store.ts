import { randomBytes, randomUUID } from 'node:crypto'
import { GetObjectCommand, type S3Client } from '@aws-sdk/client-s3'
import type { ObjectAccess, ObjectOperation } from '#shared/media/object-access.ts'
import type { S3Settings } from '#shared/media/object-store-settings.ts'
import { RETENTION_CLASSES, type RetentionClass } from '#shared/media/retention.ts'
import { createS3ObjectStore, listOne } from './s3-store.ts'
import { describeStoreFailure, statusOf, UnusableStore } from './store-failure.ts'

const PROBE_BYTES = 32

/** Returns the key of a new probe object. One that a crash leaves behind is deleted as a stray of its class. */
export function probeKey(prefix: string): string {
  return `${prefix}/probe-${randomUUID()}`
}

/**
 * Tries every operation of `access` under each prefix with an object of a few bytes, which is deleted again. Throws an
 * {@link UnusableStore} that names the setting, and the permission that is missing.
 */
export async function probeStore(client: S3Client, settings: S3Settings, access: ObjectAccess): Promise<void> {
  // One request first: a wrong bucket, key or region would fail all the others with less specific answers.
  await requireBucket(client, settings)
  const classes = Object.entries(access) as [RetentionClass, readonly ObjectOperation[]][]
  const probed = await Promise.allSettled(
    classes.map(([name, operations]) => probePrefix(client, settings, RETENTION_CLASSES[name].prefix, operations)),
  )
  for (const one of probed) if (one.status === 'rejected') throw one.reason
}

/** Makes one request. Throws an {@link UnusableStore} when the bucket cannot be used at the moment. */
export async function requireBucket(client: S3Client, settings: S3Settings): Promise<void> {
  const { prefix } = RETENTION_CLASSES.staged
  await attempting(settings, 'list', prefix, async () => void (await listOne(client, settings.S3_BUCKET, `${prefix}/`)))
}

/**
 * Reads a byte of any object under the prefix, for a process that may not write one there. Without any it reads a
 * missing one, which proves less: Ceph's gateway answers 404 with or without the permission.
 */
async function readAnother(
  client: S3Client,
  settings: S3Settings,
  { prefix, missing }: { readonly prefix: string; readonly missing: string },
): Promise<void> {
  const Key = (await listOne(client, settings.S3_BUCKET, `${prefix}/`)) ?? missing
  try {
    const { Body } = await client.send(new GetObjectCommand({ Bucket: settings.S3_BUCKET, Key, Range: 'bytes=0-0' }))
    await Body?.transformToByteArray()
  } catch (error) {
    // Missing, or an object of somebody else without any bytes.
    if (statusOf(error) !== 404 && statusOf(error) !== 416) throw error
  }
}

async function probePrefix(
  client: S3Client,
  settings: S3Settings,
  prefix: string,
  operations: readonly ObjectOperation[],
): Promise<void> {
  const objects = createS3ObjectStore(client, settings.S3_BUCKET)
  const [key, bytes] = [probeKey(prefix), randomBytes(PROBE_BYTES)]
  const attempt = async (operation: ObjectOperation, work: () => Promise<void>) => {
    if (operations.includes(operation)) await attempting(settings, operation, prefix, work)
  }
  try {
    await attempt('put', () => objects.put(key, bytes))
    if (operations.includes('put'))
      await attempt('list', async () => void (await listOne(client, settings.S3_BUCKET, key)))
    await attempt('get', async () => {
      if (!operations.includes('put')) return await readAnother(client, settings, { prefix, missing: key })
      const stored = await objects.get(key)
      if (!(stored && bytes.equals(stored)))
        throw new UnusableStore(`S3_ENDPOINT: other bytes were read than had been stored under ${prefix}/`)
    })
  } catch (error) {
    // A failed deletion would say less.
    if (operations.includes('put')) await objects.delete(key).catch(() => undefined)
    throw error
  }
  await attempt('delete', () => objects.delete(key))
}

async function attempting(
  settings: S3Settings,
  operation: ObjectOperation,
  prefix: string,
  work: () => Promise<void>,
): Promise<void> {
  try {
    await work()
  } catch (error) {
    throw describeStoreFailure(error, settings, { operation, prefix })
  }
}
