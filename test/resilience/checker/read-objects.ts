import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { GetObjectCommand, NoSuchKey, paginateListObjectsV2, S3Client } from '@aws-sdk/client-s3'
import type { S3Settings } from '#shared/media/object-store-settings.ts'

/** A stored object. */
export interface FoundObject {
  readonly key: string
  readonly bytes: Buffer
  readonly storedAtMs: number
}

/** Reads all objects that the store currently contains. */
export type ReadObjects = () => Promise<readonly FoundObject[]>

export function objectsInFolder(directory: string): ReadObjects {
  return async () => {
    const entries = await readdir(directory, { recursive: true, withFileTypes: true }).catch(() => [])
    const found = entries
      .filter((entry) => entry.isFile())
      .map(async ({ parentPath, name }): Promise<FoundObject[]> => {
        const path = join(parentPath, name)
        try {
          const [bytes, { mtimeMs }] = await Promise.all([readFile(path), stat(path)])
          return [{ key: path.slice(directory.length + 1), bytes, storedAtMs: mtimeMs }]
        } catch (error) {
          // A sweeper deleted it in the meantime.
          if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return []
          throw error
        }
      })
    return (await Promise.all(found)).flat()
  }
}

/** Reads a bucket with a separate client, which shares nothing with the adapter under test. */
export function objectsInBucket(settings: S3Settings): ReadObjects {
  const { S3_BUCKET: Bucket, S3_ENDPOINT: endpoint, S3_REGION: region } = settings
  const credentials = {
    accessKeyId: settings.S3_ACCESS_KEY_ID ?? '',
    secretAccessKey: settings.S3_SECRET_ACCESS_KEY ?? '',
  }
  return async () => {
    const client = new S3Client({ region, forcePathStyle: true, credentials, ...(endpoint ? { endpoint } : {}) })
    const read = async (Key: string, storedAt: Date | undefined): Promise<FoundObject[]> => {
      try {
        const bytes =
          (await (await client.send(new GetObjectCommand({ Bucket, Key }))).Body?.transformToByteArray()) ?? []
        return [{ key: Key, bytes: Buffer.from(bytes), storedAtMs: storedAt?.getTime() ?? 0 }]
      } catch (error) {
        // A sweeper deleted it in the meantime.
        if (error instanceof NoSuchKey) return []
        throw error
      }
    }
    try {
      const found: FoundObject[] = []
      for await (const { Contents = [] } of paginateListObjectsV2({ client }, { Bucket }))
        found.push(
          ...(await Promise.all(Contents.map(({ Key, LastModified }) => read(Key ?? '', LastModified)))).flat(),
        )
      return found
    } finally {
      client.destroy()
    }
  }
}
