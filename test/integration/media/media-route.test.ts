import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { FastifyInstance } from 'fastify'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createDiskObjectStore } from '#shared/adapters/disk/object-store.ts'
import { openObjectStore } from '#shared/adapters/object-store.ts'
import { hashMediaToken, newMediaToken, type ServedMedia } from '#shared/media/media.ts'
import type { ByteRange, ObjectStore, OpenedObjectStore } from '#shared/media/object-store.ts'
import { addMediaRoutes } from '../../../api/routes/media.ts'
import { haveS3, startTestS3, type TestS3 } from '../../support/processes/s3-server.ts'
import { composeApp, limitRate } from '../routes/compose-app.ts'

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
