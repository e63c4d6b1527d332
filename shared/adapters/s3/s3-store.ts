import { createHash } from 'node:crypto'
import type { Readable } from 'node:stream'
import {
  DeleteObjectCommand,
  GetObjectCommand,
  type GetObjectCommandOutput,
  ListObjectsV2Command,
  NoSuchKey,
  PutObjectCommand,
  paginateListObjectsV2,
  type S3Client,
} from '@aws-sdk/client-s3'
import { getSignedUrl } from '@aws-sdk/s3-request-presigner'
import pLimit from 'p-limit'
import {
  type ByteRange,
  countLeft,
  type ObjectLinks,
  type ObjectStore,
  requireObjectKey,
} from '#shared/media/object-store.ts'
import { RETENTION_CLASSES } from '#shared/media/retention.ts'
import { isOutage, statusOf } from './store-failure.ts'

/** Limit of all attempts together: a caller waits for the upload to be staged. */
const WRITE_DEADLINE_MS = 45_000
/**
 * Objects are deleted one by one: not every store supports deleting several in one call. When the store leaves as many
 * unanswered in a row, it is down.
 */
const CONCURRENT_DELETIONS = 16

/**
 * Stores objects in `bucket`. A put is atomic, and the store rejects it when the received bytes have another SHA-256.
 */
export function createS3ObjectStore(client: S3Client, bucket: string): ObjectStore {
  const place = (key: string) => ({ Bucket: bucket, Key: requireObjectKey(key) })
  const fetchObject = async (key: string, range?: ByteRange): Promise<GetObjectCommandOutput | null> => {
    try {
      return await client.send(
        new GetObjectCommand({ ...place(key), ...(range ? { Range: `bytes=${range[0]}-${range[1]}` } : {}) }),
      )
    } catch (error) {
      if (statusOf(error) !== 404) throw error
      // Some stores and every proxy answer 404 for a missing bucket as well, whose objects are not gone.
      if (!(error instanceof NoSuchKey)) await listOne(client, bucket, `${RETENTION_CLASSES.staged.prefix}/`)
      return null
    }
  }
  return {
    put: async (key, bytes) => {
      const checksum = createHash('sha256').update(bytes).digest('base64')
      await client.send(
        new PutObjectCommand({
          ...place(key),
          Body: bytes,
          ContentLength: bytes.length,
          ContentType: 'application/octet-stream',
          ChecksumSHA256: checksum,
        }),
        { abortSignal: AbortSignal.timeout(WRITE_DEADLINE_MS) },
      )
    },
    get: async (key) => (await (await fetchObject(key))?.Body?.transformToByteArray()) ?? null,
    open: async (key, range) => {
      const answer = await fetchObject(key, range)
      if (!answer?.Body) return null
      // In Node the body is the response stream.
      const body = answer.Body as unknown as Readable
      if (answer.ContentLength === undefined) {
        body.destroy()
        throw new Error('the object store did not return the size of an object')
      }
      return { bytes: answer.ContentLength, body }
    },
    delete: async (key) => void (await client.send(new DeleteObjectCommand(place(key)))),
    deleteOlderThan: async (prefix, ageMs) => {
      const oldest = Date.now() - ageMs
      const limit = pLimit(CONCURRENT_DELETIONS)
      const left = countLeft(prefix)
      let deleted = 0
      let unanswered = 0
      // A listed key is no input: the folder of a web console, or a file put there by hand, has none of this service's form.
      const deleteListed = async (Key: string) => {
        if (unanswered >= CONCURRENT_DELETIONS) return
        try {
          await client.send(new DeleteObjectCommand({ Bucket: bucket, Key }))
          deleted += 1
          unanswered = 0
        } catch (error) {
          left.add(error)
          unanswered = isOutage(error) ? unanswered + 1 : 0
        }
      }
      for await (const page of paginateListObjectsV2({ client }, { Bucket: bucket, Prefix: `${prefix}/` })) {
        const old = (page.Contents ?? []).flatMap(({ Key: key, LastModified: modified }) =>
          key !== undefined && modified !== undefined && modified.getTime() < oldest ? [key] : [],
        )
        await Promise.all(old.map((key) => limit(() => deleteListed(key))))
        if (unanswered >= CONCURRENT_DELETIONS) break
      }
      left.requireNone()
      return deleted
    },
  }
}

/** Returns one key that begins with `prefix`, if there is any. Rejects when the bucket cannot be listed. */
export async function listOne(client: S3Client, Bucket: string, prefix: string): Promise<string | undefined> {
  const { Contents } = await client.send(new ListObjectsV2Command({ Bucket, Prefix: prefix, MaxKeys: 1 }))
  return Contents?.[0]?.Key
}

/** Creates presigned URLs. Their responses have the media route's headers, as far as S3 lets a link choose them. */
export function createS3ObjectLinks(client: S3Client, bucket: string): ObjectLinks {
  return {
    link: (key, { contentType, lifetimeSeconds }) =>
      getSignedUrl(
        client,
        new GetObjectCommand({
          Bucket: bucket,
          Key: requireObjectKey(key),
          ResponseContentType: contentType,
          ResponseContentDisposition: 'attachment',
          ResponseCacheControl: 'private, no-store',
        }),
        { expiresIn: lifetimeSeconds },
      ),
  }
}
