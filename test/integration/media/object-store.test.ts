import { randomBytes, randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openObjectStore } from '#shared/adapters/object-store.ts'
import type { ObjectStore, OpenedObjectStore } from '#shared/media/object-store.ts'
import { haveS3, startTestS3, type TestS3 } from '../../support/processes/s3-server.ts'

/** A store under test. */
interface Place {
  readonly opened: OpenedObjectStore
  close(): Promise<void>
}

/** More than the resolution of a store's times. */
const AGE_DIFFERENCE_MS = 50

const fail = (error: Error) => {
  throw error
}

async function onDisk(): Promise<Place> {
  const directory = await mkdtemp(join(tmpdir(), 'farebox-objects-'))
  const settings = { S3_REGION: 'us-east-1', S3_FORCE_PATH_STYLE: false, OBJECT_STORE_DIRECTORY: directory }
  return {
    opened: await openObjectStore(settings, 'worker', fail),
    close: () => rm(directory, { recursive: true, force: true }),
  }
}

const canRunS3 = haveS3()
let server: TestS3
beforeAll(async () => {
  if (canRunS3) server = await startTestS3()
})
afterAll(() => server?.stop())

async function onS3(): Promise<Place> {
  const opened = await openObjectStore(server.settings(), 'worker', fail)
  return { opened, close: async () => opened.close() }
}

const keyIn = (prefix: string) => `${prefix}/${randomUUID()}`

const places = [
  { name: 'a folder', create: onDisk, isThere: true },
  { name: 'S3', create: onS3, isThere: canRunS3 },
]

for (const { name, create, isThere } of places)
  describe.skipIf(!isThere)(`the object store in ${name}`, () => {
    let place: Place
    let store: ObjectStore
    beforeAll(async () => {
      place = await create()
      store = place.opened.objects
    })
    afterAll(() => place.close())

    it.each(['staged', 'media/speech', 'media/images'])('returns the same bytes below %s', async (prefix) => {
      const [key, bytes] = [keyIn(prefix), randomBytes(100_000)]
      await store.put(key, bytes)
      expect(Buffer.from((await store.get(key)) ?? []).equals(bytes)).toBe(true)
    })

    it('stores 25 MiB', async () => {
      const [key, bytes] = [keyIn('staged'), randomBytes(25 * 1024 * 1024)]
      await store.put(key, bytes)
      expect(Buffer.from((await store.get(key)) ?? []).equals(bytes)).toBe(true)
    })

    it('returns null for an object that was never stored', async () => {
      const key = keyIn('staged')
      expect(await store.get(key)).toBeNull()
      expect(await store.open(key)).toBeNull()
      expect(await store.open(key, [0, 1])).toBeNull()
    })

    it('streams an object and returns its size', async () => {
      const [key, bytes] = [keyIn('media/speech'), randomBytes(300_000)]
      await store.put(key, bytes)
      const opened = await store.open(key)
      expect(opened?.bytes).toBe(300_000)
      expect(opened && (await buffer(opened.body)).equals(bytes)).toBe(true)
    })

    it.each([
      [0, 0],
      [0, 1],
      [0, 99],
      [1000, 70_000],
      [299_999, 299_999],
      [150_000, 299_999],
    ] as const)('streams exactly the bytes %i to %i', async (first, last) => {
      const [key, bytes] = [keyIn('media/images'), randomBytes(300_000)]
      await store.put(key, bytes)
      const opened = await store.open(key, [first, last])
      expect(opened?.bytes).toBe(last - first + 1)
      expect(opened && (await buffer(opened.body)).equals(bytes.subarray(first, last + 1))).toBe(true)
    })

    it('survives more readers that disconnect midway than it has connections', async () => {
      const [key, bytes] = [keyIn('media/images'), randomBytes(2_000_000)]
      await store.put(key, bytes)
      for (let round = 0; round < 60; round += 1) (await store.open(key))?.body.destroy()
      expect(Buffer.from((await store.get(key)) ?? []).equals(bytes)).toBe(true)
    })

    it('deletes an object, and succeeds when it is already deleted', async () => {
      const key = keyIn('staged')
      await store.put(key, randomBytes(10))
      await store.delete(key)
      await store.delete(key)
      expect(await store.get(key)).toBeNull()
    })

    it.each(['../secret', 'staged/../../secret', 'staged/', '/etc/passwd', 'a/b/c/d', 'staged/x?y', ''])(
      'rejects the key %j',
      async (key) => {
        const attempts = [
          () => store.put(key, randomBytes(1)),
          () => store.get(key),
          () => store.open(key),
          () => store.delete(key),
        ]
        for (const attempt of attempts)
          await expect((async () => await attempt())()).rejects.toThrow('not an object key')
      },
    )

    it('deletes old objects under one prefix and keeps newer ones and other prefixes', async () => {
      // Everything that the tests before have left.
      await store.deleteOlderThan('media/speech', -AGE_DIFFERENCE_MS)
      const [old, recent, other] = [keyIn('media/speech'), keyIn('media/speech'), keyIn('media/images')]
      for (const key of [old, other]) await store.put(key, randomBytes(10))
      await delay(AGE_DIFFERENCE_MS)
      const between = Date.now()
      await delay(AGE_DIFFERENCE_MS)
      await store.put(recent, randomBytes(10))
      expect(await store.deleteOlderThan('media/speech', Date.now() - between)).toBe(1)
      expect(await store.get(old)).toBeNull()
      expect(await store.get(recent)).not.toBeNull()
      expect(await store.get(other)).not.toBeNull()
    })

    it('deletes nothing under an unused prefix', async () => {
      expect(await store.deleteOlderThan('unused', 0)).toBe(0)
    })
  })

it.skipIf(!canRunS3)('serves an object through a link with the requested headers until the link expires', async () => {
  const { objects, links, close } = await openObjectStore(server.settings(), 'worker', fail)
  const [key, bytes] = [`media/speech/${randomUUID()}`, randomBytes(1000)]
  await objects.put(key, bytes)
  const linkFor = async (lifetimeSeconds: number) =>
    (await links?.link(key, { contentType: 'audio/mpeg', lifetimeSeconds })) ?? ''
  const answer = await fetch(await linkFor(600))
  expect(answer.status).toBe(200)
  expect(answer.headers.get('content-type')).toBe('audio/mpeg')
  expect(answer.headers.get('content-disposition')).toBe('attachment')
  expect(Buffer.from(await answer.arrayBuffer()).equals(bytes)).toBe(true)
  const short = await linkFor(1)
  await expect.poll(async () => (await fetch(short)).status, { interval: 100 }).toBe(403)
  close()
})
