import { randomBytes, randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import {
  DeleteObjectCommand,
  GetBucketLifecycleConfigurationCommand,
  GetObjectCommand,
  GetPublicAccessBlockCommand,
  ListObjectsV2Command,
  PutBucketAclCommand,
  PutBucketPolicyCommand,
  PutObjectCommand,
  PutPublicAccessBlockCommand,
  type S3Client,
} from '@aws-sdk/client-s3'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { openObjectStore } from '#shared/adapters/open-stores.ts'
import { LIFECYCLE_RULES } from '#shared/adapters/s3/prepare-bucket.ts'
import { createS3Client } from '#shared/adapters/s3/s3-client.ts'
import { OBJECT_ACCESS, type ObjectAccess, type ObjectOperation, type ObjectUser } from '#shared/media/object-access.ts'
import type { S3Settings } from '#shared/media/object-store-settings.ts'
import type { ObjectStore, OpenedObjectStore } from '#shared/media/object-store.ts'
import { RETENTION_CLASSES, type RetentionClass } from '#shared/media/retention.ts'
import { initializeBucket } from '../../../infra/commands/bucket-init/main.ts'
import { findFreePort } from '../../../infra/sandbox/processes/free-port.ts'
import { readPolicy } from '../../support/deployment/bucket-policies.ts'
import { startTcpFaultProxy } from '../../support/http/tcp-fault-proxy.ts'
import { havePrograms } from '../../support/processes/optional-program.ts'
import { PROXY_KINDS, PROXY_PROGRAMS, startReverseProxy } from '../../support/processes/reverse-proxy.ts'
import { haveS3, startTestS3, type TestS3 } from '../../support/processes/s3-server.ts'
import { haveSwift, startTestSwift, type TestSwift } from '../../support/processes/swift-server.ts'

const SECRET = 'a-secret-nobody-may-see'
async function messageOf(work: Promise<unknown>): Promise<string> {
  return await work.then(
    () => 'did not fail',
    (error: Error) => error.message,
  )
}
const open = (settings: S3Settings, user: ObjectUser = 'worker', errors: Error[] = []) =>
  openObjectStore(settings, user, (error) => errors.push(error))
/** Opens a store and returns what its check says, which is what the start said. */
async function checked(settings: S3Settings, user?: ObjectUser): Promise<string> {
  const errors: Error[] = []
  const { check, close } = await open(settings, user, errors)
  const message = await messageOf(check())
  close()
  expect(errors[0]?.message ?? 'did not fail').toBe(message)
  return message
}
const without = (access: ObjectAccess, changed: RetentionClass, operation: ObjectOperation): ObjectAccess => ({
  ...access,
  [changed]: access[changed].filter((one) => one !== operation),
})
const allow = (Action: readonly string[], Resource: string) => ({ Effect: 'Allow', Action, Resource })
/** Returns the status of a store's answer. */
const statusOf = (work: Promise<unknown>): Promise<number | undefined> =>
  work.then(
    () => 200,
    (error: { $metadata?: { httpStatusCode?: number } }) => error.$metadata?.httpStatusCode,
  )
const unlisted = (operations: readonly ObjectOperation[]) => operations.filter((one) => one !== 'list')
/** A store under test. */
interface Place {
  readonly opened: OpenedObjectStore
  close(): Promise<void>
}
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
const canRunSwift = haveSwift()
const keyIn = (prefix: string) => `${prefix}/${randomUUID()}`

describe.skipIf(!haveS3())('a real S3 server', () => {
  let s3: TestS3
  let owner: S3Client
  beforeAll(async () => {
    s3 = await startTestS3()
    owner = createS3Client(s3.settings())
  })
  afterAll(async () => {
    owner?.destroy()
    await s3?.stop()
  })

  const keysIn = async (Bucket: string) =>
    ((await owner.send(new ListObjectsV2Command({ Bucket }))).Contents ?? []).map(({ Key }) => String(Key))

  describe('opening the object store', () => {
    it('names S3_BUCKET when the bucket does not exist', async () => {
      const message = await checked(s3.settings({ S3_BUCKET: 'nowhere' }))
      expect(message).toBe(
        `S3_BUCKET: there is no bucket nowhere at ${s3.url}; infra/commands/bucket-init/main.ts creates it`,
      )
    })

    it.each([
      ['key id', { S3_ACCESS_KEY_ID: 'WRONG' }, 'rejects the key id'],
      ['secret', { S3_SECRET_ACCESS_KEY: SECRET }, 'rejects the signature'],
    ])(
      'names the credentials’ settings when the store rejects the %s, without showing them',
      async (_, wrong, says) => {
        const message = await checked(s3.settings(wrong))
        expect(message).toContain('S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY')
        expect(message).toContain(says)
        expect(message).not.toContain(SECRET)
        expect(message).not.toContain(String(s3.settings().S3_SECRET_ACCESS_KEY))
      },
    )

    it('starts while the store cannot be reached, reports that, and can be used once it answers', async () => {
      const proxy = await startTcpFaultProxy({ host: '127.0.0.1', port: Number(new URL(s3.url).port) })
      onTestFinished(() => proxy.stop())
      await proxy.setFault({ kind: 'refuse' })
      const url = `http://127.0.0.1:${proxy.port}`
      const errors: Error[] = []
      const { objects, check, close } = await open(s3.settings({ S3_ENDPOINT: url }), 'worker', errors)
      expect(await messageOf(check())).toContain(`S3_ENDPOINT: ${url} cannot be reached: `)
      await expect.poll(() => errors.length).toBeGreaterThan(0)
      expect(errors[0]?.message).toContain('ECONNREFUSED')
      const key = `media/images/${randomUUID()}`
      expect(await messageOf(objects.put(key, Buffer.from('x')))).not.toBe('did not fail')
      await proxy.setFault(null)
      await expect.poll(() => messageOf(check())).toBe('did not fail')
      await objects.put(key, Buffer.from('x'))
      close()
    })

    it('takes no object for a missing one when the bucket is', async () => {
      const { objects, close } = await open(s3.settings({ S3_BUCKET: 'nowhere' }))
      for (const read of [(key: string) => objects.get(key), (key: string) => objects.open(key)])
        expect(await messageOf(read(`staged/${randomUUID()}`))).not.toBe('did not fail')
      close()
    })

    it('does not pass the check while a store that could be reached at first cannot be reached', async () => {
      const proxy = await startTcpFaultProxy({ host: '127.0.0.1', port: Number(new URL(s3.url).port) })
      onTestFinished(() => proxy.stop())
      const { check, close } = await open(s3.settings({ S3_ENDPOINT: `http://127.0.0.1:${proxy.port}` }))
      await check()
      await proxy.setFault({ kind: 'refuse' })
      expect(await messageOf(check())).toContain('S3_ENDPOINT')
      close()
    })
  })

  const lifecycleOf = async (Bucket: string) =>
    (await owner.send(new GetBucketLifecycleConfigurationCommand({ Bucket }))).Rules?.map(
      ({ ID, Status, Filter, Expiration }) => ({ ID, Status, Filter, Expiration }),
    )
  const blockOf = async (Bucket: string) =>
    (await owner.send(new GetPublicAccessBlockCommand({ Bucket }))).PublicAccessBlockConfiguration

  describe('bucket-init', () => {
    const EXCEPT_ACLS = {
      BlockPublicAcls: false,
      IgnorePublicAcls: true,
      BlockPublicPolicy: true,
      RestrictPublicBuckets: true,
    }

    it('creates a bucket that can be used immediately and that nobody can read without keys, and is safe to repeat', async () => {
      const settings = s3.settings({ S3_BUCKET: 'made-by-the-command' })
      const rest = { publicAccessBlock: 'except BlockPublicAcls', lifecycleRules: 'done', isPublic: false }
      expect(await initializeBucket(settings)).toEqual({ bucket: 'done', ...rest })
      expect(await initializeBucket(settings)).toEqual({ bucket: 'already there', ...rest })
      expect(await blockOf(settings.S3_BUCKET)).toEqual(EXCEPT_ACLS)
      expect(
        (await lifecycleOf(settings.S3_BUCKET))?.toSorted((a, b) => String(a.ID).localeCompare(String(b.ID))),
      ).toEqual(LIFECYCLE_RULES.toSorted((a, b) => a.ID.localeCompare(b.ID)))
      expect(await keysIn(settings.S3_BUCKET)).toEqual([])
      const { objects, close } = await open(settings)
      const key = `media/images/${randomUUID()}`
      await objects.put(key, Buffer.from('x'))
      expect(await objects.get(key)).not.toBeNull()
      close()
      expect((await fetch(`${s3.url}/${settings.S3_BUCKET}/${key}`)).status).toBe(403)
    })

    it('repairs a bucket whose public access block makes the store refuse every upload', async () => {
      const Bucket = 'blocked-by-its-own-block'
      await s3.createBucket(Bucket)
      const PublicAccessBlockConfiguration = { ...EXCEPT_ACLS, BlockPublicAcls: true }
      await owner.send(new PutPublicAccessBlockCommand({ Bucket, PublicAccessBlockConfiguration }))
      const settings = s3.settings({ S3_BUCKET: Bucket })
      expect(await checked(settings)).toContain('may not put objects under media/')
      expect(await initializeBucket(settings)).toMatchObject({ publicAccessBlock: 'except BlockPublicAcls' })
      expect(await checked(settings)).toBe('did not fail')
    })

    it('makes a public ACL private where it cannot be blocked', async () => {
      const Bucket = 'listed-by-everyone'
      await s3.createBucket(Bucket)
      await owner.send(new PutBucketAclCommand({ Bucket, ACL: 'public-read' }))
      expect((await fetch(`${s3.url}/${Bucket}/`)).status).toBe(200)
      expect(await initializeBucket(s3.settings({ S3_BUCKET: Bucket }))).toMatchObject({ isPublic: false })
      expect((await fetch(`${s3.url}/${Bucket}/`)).status).toBe(403)
    })

    it('reports a bucket that anyone can read', async () => {
      const Bucket = 'read-by-everyone'
      await s3.createBucket(Bucket)
      const Resource = `arn:aws:s3:::${Bucket}/*`
      const Statement = [{ Effect: 'Allow', Principal: '*', Action: 's3:GetObject', Resource }]
      await owner.send(
        new PutBucketPolicyCommand({ Bucket, Policy: JSON.stringify({ Version: '2012-10-17', Statement }) }),
      )
      expect(await initializeBucket(s3.settings({ S3_BUCKET: Bucket }))).toMatchObject({ isPublic: true })
    })

    it('names the setting when bucket-init cannot use the store', async () => {
      const message = await messageOf(initializeBucket(s3.settings({ S3_ACCESS_KEY_ID: 'WRONG' })))
      expect(message).toContain('S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY')
    })
  })
})

describe.skipIf(!haveS3())('the rights of API and worker in a bucket', () => {
  let s3: TestS3
  let owner: S3Client
  beforeAll(async () => {
    s3 = await startTestS3()
    owner = createS3Client(s3.settings())
  })
  afterAll(async () => {
    owner?.destroy()
    await s3?.stop()
  })

  const putObject = (Bucket: string, Key: string) => owner.send(new PutObjectCommand({ Bucket, Key, Body: 'x' }))
  const keysIn = async (Bucket: string) =>
    ((await owner.send(new ListObjectsV2Command({ Bucket }))).Contents ?? []).map(({ Key }) => String(Key))

  /** Lets `user` do in a new bucket what the statements allow, and returns the user's settings. */
  async function grantPolicy(
    user: string,
    keys: Partial<S3Settings>,
    statementsFor: (bucket: string) => readonly object[] | Promise<readonly object[]>,
  ): Promise<S3Settings> {
    const bucket = `rights-${randomUUID()}`
    await s3.createBucket(bucket)
    const Principal = { AWS: `arn:aws:iam:::user/${user}` }
    const Statement = (await statementsFor(bucket)).map((statement) => ({ ...statement, Principal }))
    const Policy = JSON.stringify({ Version: '2012-10-17', Statement })
    await owner.send(new PutBucketPolicyCommand({ Bucket: bucket, Policy }))
    return s3.settings({ S3_BUCKET: bucket, ...keys })
  }

  /** Lets `user` do exactly what `access` says in a new bucket, and returns the user's settings. */
  function grant(user: string, keys: Partial<S3Settings>, access: ObjectAccess): Promise<S3Settings> {
    const actions = { put: 's3:PutObject', get: 's3:GetObject', delete: 's3:DeleteObject' }
    const classes = Object.entries(access) as [RetentionClass, readonly ObjectOperation[]][]
    return grantPolicy(user, keys, (bucket) =>
      classes
        .flatMap(([name, operations]) => [
          allow(
            operations.flatMap((operation) => (operation === 'list' ? [] : [actions[operation]])),
            `arn:aws:s3:::${bucket}/${RETENTION_CLASSES[name].prefix}/*`,
          ),
          ...(operations.includes('list') ? [allow(['s3:ListBucket'], `arn:aws:s3:::${bucket}`)] : []),
        ])
        .filter(({ Action }) => Action.length),
    )
  }

  const users: Partial<Record<ObjectUser, Partial<S3Settings>>> = {}
  beforeAll(async () => {
    for (const user of ['api', 'worker'] as const) users[user] = await s3.addUser(user)
  })

  it.each(['api', 'worker'] as const)(
    'starts an %s with the policy of infra/stores.md and leaves nothing behind',
    async (user) => {
      const settings = await grantPolicy(user, users[user] ?? {}, (bucket) => readPolicy(user, bucket))
      const keys = Object.values(RETENTION_CLASSES).map(({ prefix }) => `${prefix}/${randomUUID()}`)
      // In an empty bucket, and in one with objects.
      for (const present of [[], keys]) {
        for (const key of present) await putObject(settings.S3_BUCKET, key)
        const { check, close } = await open(settings, user)
        await check()
        close()
        expect((await keysIn(settings.S3_BUCKET)).toSorted()).toEqual(present.toSorted())
      }
    },
  )

  it('archives with the policy of infra/stores.md, by which nobody deletes from the archive or reads an upload', async () => {
    const keys = await s3.addUser('archivist')
    const settings = await grantPolicy('archivist', keys, (bucket) => readPolicy('archive', bucket))
    const archivist = createS3Client(settings)
    onTestFinished(() => archivist.destroy())
    const Bucket = settings.S3_BUCKET
    await putObject(Bucket, 'staged/upload')
    const archived = { Bucket, Key: 'archive/calls/2026-08-a' }
    expect(
      await Promise.all([
        statusOf(archivist.send(new PutObjectCommand({ ...archived, Body: 'x' }))),
        statusOf(archivist.send(new ListObjectsV2Command({ Bucket }))),
        statusOf(archivist.send(new GetObjectCommand({ Bucket, Key: 'staged/upload' }))),
        statusOf(archivist.send(new PutObjectCommand({ Bucket, Key: 'media/images/a', Body: 'x' }))),
        statusOf(archivist.send(new DeleteObjectCommand(archived))),
      ]),
    ).toEqual([200, 200, 403, 403, 403])
    expect(await statusOf(archivist.send(new GetObjectCommand(archived)))).toBe(200)
  })

  it('refuses everybody without TLS, the owner too, under the bucket’s own policy of infra/stores.md', async () => {
    const Bucket = 'only-with-tls'
    await s3.createBucket(Bucket)
    await putObject(Bucket, 'a')
    const Statement = await readPolicy('bucket', Bucket)
    const Policy = JSON.stringify({ Version: '2012-10-17', Statement })
    await owner.send(new PutBucketPolicyCommand({ Bucket, Policy }))
    // The gateway of this test has no TLS.
    await expect(putObject(Bucket, 'b')).rejects.toMatchObject({ $metadata: { httpStatusCode: 403 } })
  })

  const rights = (['api', 'worker'] as const).flatMap((user) =>
    (Object.keys(RETENTION_CLASSES) as RetentionClass[]).flatMap((name) =>
      (OBJECT_ACCESS[user][name] as readonly ObjectOperation[])
        .filter((operation) => operation !== 'list')
        .map((operation) => [user, operation, name] as const),
    ),
  )
  it.each(rights)(
    'says to an %s that may not %s objects of the class %s which permission it needs',
    async (user, operation, name) => {
      const settings = await grant(user, users[user] ?? {}, without(OBJECT_ACCESS[user], name, operation))
      await putObject(settings.S3_BUCKET, `${RETENTION_CLASSES[name].prefix}/${randomUUID()}`)
      const message = await checked(settings, user)
      const permission = { put: 's3:PutObject', get: 's3:GetObject', delete: 's3:DeleteObject' }[operation]
      expect(message).toContain(`may not ${operation} objects under ${RETENTION_CLASSES[name].prefix}/ in the bucket`)
      expect(message).toContain(`grant ${permission} there`)
    },
  )

  it.each(['api', 'worker'] as const)(
    'says to an %s that may not list the bucket which permission it needs',
    async (user) => {
      const { staged, speech, images } = OBJECT_ACCESS[user]
      const access = { staged: unlisted(staged), speech: unlisted(speech), images: unlisted(images) }
      const message = await checked(await grant(user, users[user] ?? {}, access), user)
      expect(message).toContain('grant s3:ListBucket there')
    },
  )

  it('says that another user owns the bucket and has granted nothing', async () => {
    const message = await checked(s3.settings(users.api), 'api')
    expect(message).toContain('S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY: these credentials may not list objects')
  })
})

describe.skipIf(!havePrograms(...PROXY_PROGRAMS))('the own page of a proxy whose store is away', () => {
  // haproxy and varnish try again for longer than a start waits, which then says that nothing answers (tried by hand).
  it.each(PROXY_KINDS.filter((kind) => kind !== 'haproxy' && kind !== 'varnish'))(
    '%s: names status and setting, and takes no object for a missing one',
    async (kind) => {
      const proxy = await startReverseProxy(kind, 'plain', `http://127.0.0.1:${await findFreePort()}`)
      onTestFinished(() => proxy.stop())
      const settings = {
        S3_BUCKET: 'a-bucket',
        S3_ENDPOINT: proxy.url,
        S3_REGION: 'us-east-1',
        S3_FORCE_PATH_STYLE: true,
        S3_ACCESS_KEY_ID: 'an-id',
        S3_SECRET_ACCESS_KEY: SECRET,
      }
      const errors: Error[] = []
      const { objects, check, close } = await open(settings, 'worker', errors)
      expect(errors[0]?.message).toMatch(/ cannot be reached: HTTP 50\d/)
      expect(await messageOf(check())).toMatch(/ cannot be reached: HTTP 50\d/)
      expect(await messageOf(objects.get(keyIn('staged')))).not.toBe('did not fail')
      close()
    },
  )
})

describe('the object store', () => {
  let server: TestS3
  let swift: TestSwift
  beforeAll(async () => {
    if (canRunS3) server = await startTestS3()
    if (canRunSwift) swift = await startTestSwift()
  })

  afterAll(async () => {
    await server?.stop()
    await swift?.stop()
  })

  async function onS3(): Promise<Place> {
    const opened = await openObjectStore(server.settings(), 'worker', fail)
    return { opened, close: async () => opened.close() }
  }
  async function onSwift(): Promise<Place> {
    const settings = swift.settings()
    // It takes the calls that it does not know for the bucket's own.
    const unsupported = { publicAccessBlock: 'unsupported', lifecycleRules: 'unsupported' }
    expect(await initializeBucket(settings)).toEqual({ bucket: 'done', ...unsupported, isPublic: false })
    expect(await initializeBucket(settings)).toEqual({ bucket: 'already there', ...unsupported, isPublic: false })
    const opened = await openObjectStore(settings, 'worker', fail)
    return { opened, close: async () => opened.close() }
  }
  /** With more than the resolution of the store's times. */
  const places = [
    { name: 'a folder', create: onDisk, isThere: true, ageDifferenceMs: 50 },
    { name: 'S3', create: onS3, isThere: canRunS3, ageDifferenceMs: 50 },
    // It lists times in whole seconds, rounded up.
    { name: 'Swift', create: onSwift, isThere: canRunSwift, ageDifferenceMs: 2100 },
  ]
  for (const { name, create, isThere, ageDifferenceMs } of places)
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
        await store.deleteOlderThan('media/speech', -ageDifferenceMs)
        const [old, recent, other] = [keyIn('media/speech'), keyIn('media/speech'), keyIn('media/images')]
        for (const key of [old, other]) await store.put(key, randomBytes(10))
        await delay(ageDifferenceMs)
        const between = Date.now()
        await delay(ageDifferenceMs)
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

  it.skipIf(!canRunS3)(
    'serves an object through a link with the requested headers until the link expires',
    async () => {
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
    },
  )
})
