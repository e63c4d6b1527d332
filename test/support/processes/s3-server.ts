import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CreateBucketCommand } from '@aws-sdk/client-s3'
import { createS3Client } from '#shared/adapters/s3/s3-client.ts'
import type { S3Settings } from '#shared/media/object-store-settings.ts'
import { startCephCluster } from './ceph-cluster.ts'
import { havePrograms } from './optional-program.ts'

/** A real S3 server: Ceph's gateway. */
export interface TestS3 {
  readonly url: string
  /** Returns settings of a service that stores its objects here, with the keys of the buckets' owner. */
  settings(changes?: Partial<S3Settings>): S3Settings
  /** The same, as environment variables. */
  environment(changes?: Partial<S3Settings>): Record<string, string>
  createBucket(name: string): Promise<void>
  /** Creates a user who owns nothing. */
  addUser(name: string): Promise<S3Keys>
  stop(): Promise<void>
}

type S3Keys = Pick<S3Settings, 'S3_ACCESS_KEY_ID' | 'S3_SECRET_ACCESS_KEY'>

export interface TestS3Options {
  /** A bucket to create without any configuration; default `farebox-test`, `null` for none. */
  readonly bucket?: string | null
  /** How long a day of a lifecycle rule lasts; default: a day. */
  readonly daySeconds?: number
}

/** Whether Ceph is installed. Warns when it is not, and throws with `CI=true`. */
export const haveS3 = () => havePrograms('ceph', 'ceph-mon', 'ceph-osd', 'monmaptool', 'radosgw', 'radosgw-admin')

/** Starts Ceph's gateway with a bucket on a free loopback port, in about two seconds. */
export async function startTestS3({ bucket = 'farebox-test', daySeconds }: TestS3Options = {}): Promise<TestS3> {
  const directory = await mkdtemp(join(tmpdir(), 'farebox-s3-'))
  const removeFiles = () => rm(directory, { recursive: true, force: true })
  const cluster = await startCephCluster(directory, daySeconds).catch(async (error: unknown) => {
    await removeFiles()
    throw error
  })
  const url = `http://127.0.0.1:${cluster.port}`
  const addUser = async (name: string) => {
    const keys = {
      S3_ACCESS_KEY_ID: `KEYOF${name.toUpperCase()}`,
      S3_SECRET_ACCESS_KEY: randomBytes(20).toString('hex'),
    }
    await cluster.addUser(name, keys.S3_ACCESS_KEY_ID, keys.S3_SECRET_ACCESS_KEY)
    return keys
  }
  const owner = await addUser('owner')
  const settings = (changes: Partial<S3Settings> = {}): S3Settings => ({
    S3_BUCKET: bucket ?? 'farebox-test',
    S3_ENDPOINT: url,
    S3_REGION: 'us-east-1',
    S3_FORCE_PATH_STYLE: true,
    ...owner,
    ...changes,
  })
  const createBucket = async (name: string) => {
    const client = createS3Client(settings())
    await client.send(new CreateBucketCommand({ Bucket: name }))
    client.destroy()
  }
  if (bucket !== null) await createBucket(bucket)
  return {
    url,
    settings,
    environment: (changes) => asEnvironment(settings(changes)),
    createBucket,
    addUser,
    stop: async () => {
      await cluster.stop()
      await removeFiles()
    },
  }
}

function asEnvironment(settings: S3Settings): Record<string, string> {
  return Object.fromEntries(
    Object.entries(settings).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]])),
  )
}
