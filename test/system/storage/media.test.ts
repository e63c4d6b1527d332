import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PutBucketLifecycleConfigurationCommand } from '@aws-sdk/client-s3'
import type { FastifyInstance } from 'fastify'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createDiskObjectStore } from '#shared/adapters/disk/disk-store.ts'
import { openArchive, openObjectStore } from '#shared/adapters/open-stores.ts'
import { createS3Client } from '#shared/adapters/s3/s3-client.ts'
import { hashMediaToken, newMediaToken, type ServedMedia } from '#shared/media/media.ts'
import type { S3Settings } from '#shared/media/object-store-settings.ts'
import type { ByteRange, ObjectStore, OpenedObjectStore } from '#shared/media/object-store.ts'
import { addMediaRoutes } from '../../../api/routes/media.ts'
import { main } from '../../../infra/commands/archive/main.ts'
import { initializeBucket } from '../../../infra/commands/bucket-init/main.ts'
import { composeApp, limitRate } from '../../integration/routes/compose-app.ts'
import { NEXT_MONTH, oldCalls } from '../../support/ledger/old-calls.ts'
import { openReader } from '../../support/ledger/test-archive.ts'
import { copyDatabase, createTestDatabase } from '../../support/ledger/test-database.ts'
import { createTestLedger, openTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'
import { callCommand } from '../../support/processes/call-command.ts'
import { haveS3, startTestS3, type TestS3 } from '../../support/processes/s3-server.ts'

const BYTES = randomBytes(50_000)
const token = newMediaToken()
const found: ServedMedia = {
  objectKey: `media/speech/${randomUUID()}`,
  contentType: 'audio/mpeg',
  sha256: createHash('sha256').update(BYTES).digest('hex'),
  bytes: BYTES.length,
  expiresAt: new Date(Date.now() + 3_600_000),
}
function compose(
  media: Pick<ObjectStore, 'open'>,
  links: OpenedObjectStore['links'],
  served = found,
  now = () => new Date(),
) {
  const store = {
    findMedia: (hash: string) => Promise.resolve(hash === hashMediaToken(token) ? served : null),
  }
  const dependencies = { store, media, mediaLinks: links, limitRate, now }
  return composeApp((app) => addMediaRoutes(app, dependencies))
}
const canRunS3 = haveS3()

describe('media served by this process', () => {
  let directory: string
  let app: FastifyInstance
  /** The ranges requested from the store; `null` for the whole object. */
  const opened: (ByteRange | null)[] = []
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'farebox-media-'))
    const disk = createDiskObjectStore(directory)
    await disk.put(found.objectKey, BYTES)
    app = await compose(
      {
        open: (key, range) => {
          opened.push(range ?? null)
          return disk.open(key, range)
        },
      },
      null,
    )
  })
  afterAll(async () => {
    await app.close()
    await rm(directory, { recursive: true, force: true })
  })

  const get = (range?: string, method: 'GET' | 'HEAD' = 'GET') =>
    app.inject({ method, url: `/media/${token}`, headers: range === undefined ? {} : { range } })

  it('serves the whole object with its size and digest', async () => {
    const answer = await get()
    expect(answer.statusCode).toBe(200)
    expect(answer.rawPayload.equals(BYTES)).toBe(true)
    expect(answer.headers).toMatchObject({
      'content-length': '50000',
      'content-type': 'audio/mpeg',
      etag: `"${found.sha256}"`,
      'accept-ranges': 'bytes',
    })
  })

  it.each([
    ['bytes=0-0', 0, 0],
    ['bytes=100-199', 100, 199],
    ['bytes=49990-', 49_990, 49_999],
    ['bytes=-10', 49_990, 49_999],
    ['bytes=49990-60000', 49_990, 49_999],
  ])('serves a part for %s and reads only that part from the store', async (range, first, last) => {
    opened.length = 0
    const answer = await get(range)
    expect(answer.statusCode).toBe(206)
    expect(answer.headers['content-range']).toBe(`bytes ${first}-${last}/50000`)
    expect(answer.headers['content-length']).toBe(String(last - first + 1))
    expect(answer.rawPayload.equals(BYTES.subarray(first, last + 1))).toBe(true)
    expect(opened).toEqual([[first, last]])
  })

  it('returns 416 for a range beyond the end, without reading the store', async () => {
    opened.length = 0
    const answer = await get('bytes=50000-')
    expect(answer.statusCode).toBe(416)
    expect(answer.headers['content-range']).toBe('bytes */50000')
    expect(opened).toEqual([])
  })

  it('returns the size for HEAD, without reading the store', async () => {
    opened.length = 0
    const answer = await get(undefined, 'HEAD')
    expect(answer.statusCode).toBe(200)
    expect(answer.headers['content-length']).toBe('50000')
    expect(opened).toEqual([])
  })

  it('returns the size of the whole for HEAD with a range, which only GET has', async () => {
    const answer = await get('bytes=0-9', 'HEAD')
    expect(answer.statusCode).toBe(200)
    expect(answer.headers['content-length']).toBe('50000')
    expect(answer.headers['content-range']).toBeUndefined()
  })

  it.each([
    ['the tag of this object', `"${found.sha256}"`, 206],
    ['the tag of another object', `"${'0'.repeat(64)}"`, 200],
    ['a weak tag', `W/"${found.sha256}"`, 200],
    ['a date', 'Mon, 30 Nov 2026 00:00:00 GMT', 200],
  ])('with If-Range of %s answers a range with the part only if the client has that object', async (_, tag, status) => {
    const headers = { range: 'bytes=100-199', 'if-range': tag }
    const answer = await app.inject({ url: `/media/${token}`, headers })
    expect(answer.statusCode).toBe(status)
    expect(answer.rawPayload.equals(status === 206 ? BYTES.subarray(100, 200) : BYTES)).toBe(true)
  })

  it('returns 503 with the payment’s state and no media headers when the object is lost', async () => {
    const lost = await compose({ open: () => Promise.resolve(null) }, null)
    const answer = await lost.inject({ url: `/media/${token}`, headers: { range: 'bytes=0-9' } })
    expect(answer.statusCode).toBe(503)
    expect(answer.headers['content-range']).toBeUndefined()
    expect(answer.json()).toMatchObject({ error: { code: 'media_unavailable', payment: 'settled' } })
    await lost.close()
  })

  it('returns 503 when the object has another size than recorded', async () => {
    const other = await compose(createDiskObjectStore(directory), null, { ...found, bytes: 49_999 })
    expect((await other.inject({ url: `/media/${token}` })).statusCode).toBe(503)
    await other.close()
  })
})

describe.skipIf(!haveS3())('media by redirect', () => {
  let s3: TestS3
  let store: OpenedObjectStore
  let app: FastifyInstance
  beforeAll(async () => {
    s3 = await startTestS3()
    store = await openObjectStore(s3.settings(), 'api', (error) => {
      throw error
    })
    await store.objects.put(found.objectKey, BYTES)
    app = await compose(store.objects, store.links)
  })
  afterAll(async () => {
    await app?.close()
    store?.close()
    await s3?.stop()
  })

  it('redirects to a link that serves the bytes, is valid for a minute and must not be cached', async () => {
    const answer = await app.inject({ url: `/media/${token}` })
    expect(answer.statusCode).toBe(302)
    expect(answer.headers['cache-control']).toBe('private, no-store')
    expect(answer.headers['referrer-policy']).toBe('no-referrer')
    const link = new URL(String(answer.headers.location))
    expect(Number(link.searchParams.get('X-Amz-Expires'))).toBeLessThanOrEqual(60)
    const fetched = await fetch(link)
    expect(fetched.headers.get('content-type')).toBe('audio/mpeg')
    expect(Buffer.from(await fetched.arrayBuffer()).equals(BYTES)).toBe(true)
  })

  it('limits the link’s validity to that of the media', async () => {
    const now = new Date()
    const served = { ...found, expiresAt: new Date(now.getTime() + 5_500) }
    const soon = await compose(store.objects, store.links, served, () => now)
    const answer = await soon.inject({ url: `/media/${token}` })
    const link = new URL(String(answer.headers.location))
    expect(link.searchParams.get('X-Amz-Expires')).toBe('5')
    await soon.close()
  })

  it('returns 404 for an unknown token', async () => {
    expect((await app.inject({ url: `/media/${newMediaToken()}` })).statusCode).toBe(404)
  })
})

describe.skipIf(!canRunS3)('an archive in a bucket', () => {
  let s3: TestS3
  let ledger: TestLedger
  beforeAll(async () => {
    s3 = await startTestS3({ bucket: null })
    ledger = await createTestLedger(4)
  })
  afterAll(async () => {
    await ledger.close()
    await s3.stop()
  })
  const run = ({
    ledger: of = ledger,
    settings = {},
    task = ['--before', NEXT_MONTH],
  }: {
    ledger?: TestLedger | undefined
    settings?: Partial<S3Settings>
    task?: readonly string[]
  } = {}) => callCommand(() => main(task, { DATABASE_URL: of.url, ...s3.environment(settings) }))
  const readReceipts = async (of = ledger) => {
    const opened = await openArchive(s3.settings())
    const rows = await of.sql<{ id: string }>('SELECT id FROM receipts ORDER BY id')
    const reader = openReader(of, opened.objects)
    const receipts = await Promise.all(rows.map(async ({ id }) => JSON.stringify(await reader.findReceipt(id))))
    opened.close()
    return receipts
  }

  it('is refused while there is no bucket, or none that the keys open', async () => {
    await oldCalls(ledger, 1)
    const missing = await run()
    expect([missing.exitCode, missing.errors]).toEqual([
      2,
      expect.stringContaining('infra/commands/bucket-init/main.ts creates it'),
    ])
    await initializeBucket(s3.settings())
    const wrong = await run({ settings: { S3_SECRET_ACCESS_KEY: 'wrong' } })
    expect([wrong.exitCode, wrong.errors]).toEqual([2, expect.stringContaining('rejects the signature')])
  })

  it('is refused while a lifecycle rule would delete archived receipts, and takes those of bucket-init', async () => {
    const setRules = async (prefix: string) => {
      const client = createS3Client(s3.settings())
      await client.send(
        new PutBucketLifecycleConfigurationCommand({
          Bucket: s3.settings().S3_BUCKET,
          LifecycleConfiguration: {
            Rules: [{ ID: 'everything', Status: 'Enabled', Filter: { Prefix: prefix }, Expiration: { Days: 30 } }],
          },
        }),
      )
      client.destroy()
    }
    for (const prefix of ['', 'arch', 'archive/calls/2026']) {
      await setRules(prefix)
      const { exitCode, errors } = await run()
      expect([prefix, exitCode, errors]).toEqual([
        prefix,
        1,
        expect.stringContaining('the lifecycle rule everything would delete archived receipts'),
      ])
    }
    await initializeBucket(s3.settings())
    const receipts = await readReceipts()
    expect((await run()).output).toContain('1 calls in 1 objects')
    expect(await readReceipts()).toEqual(receipts)
  })

  it('continues in a ledger that was restored from an older backup', async () => {
    const database = await createTestDatabase()
    const atBackup = openTestLedger({ url: database.url, drop: async () => undefined }, 4)
    await oldCalls(atBackup, 2)
    // A database is copied while nobody is connected to it.
    await atBackup.close()
    const [lost, restored] = [await copyDatabase(database.url), database].map((each) => openTestLedger(each, 4))
    const receipts = await readReceipts(restored)
    const readObjects = (of = restored) => of?.sql('SELECT key, sha256 FROM archive_objects ORDER BY key')
    expect((await run({ ledger: lost })).exitCode).toBe(0)
    expect((await run({ ledger: restored })).exitCode).toBe(0)
    expect(await readObjects(restored)).toEqual(await readObjects(lost))
    expect(await readReceipts(restored)).toEqual(receipts)
    expect((await run({ ledger: restored, task: ['--verify'] })).output).toBe('1 objects are as they were archived.\n')
    await lost?.close()
    await restored?.close()
  })
})
