import { randomUUID } from 'node:crypto'
import {
  GetBucketLifecycleConfigurationCommand,
  GetPublicAccessBlockCommand,
  ListObjectsV2Command,
  PutBucketAclCommand,
  PutBucketPolicyCommand,
  PutPublicAccessBlockCommand,
  type S3Client,
} from '@aws-sdk/client-s3'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { openObjectStore } from '#shared/adapters/object-store.ts'
import { createS3Client } from '#shared/adapters/s3/client.ts'
import { LIFECYCLE_RULES } from '#shared/adapters/s3/prepare-bucket.ts'
import type { ObjectUser } from '#shared/media/object-access.ts'
import type { S3Settings } from '#shared/media/object-store-settings.ts'
import { initializeBucket } from '../../../infra/commands/bucket-init.ts'
import { startTcpFaultProxy } from '../../support/http/tcp-fault-proxy.ts'
import { haveS3, startTestS3, type TestS3 } from '../../support/processes/s3-server.ts'

const SECRET = 'a-secret-nobody-may-see'

async function messageOf(work: Promise<unknown>): Promise<string> {
  return await work.then(
    () => 'did not fail',
    (error: Error) => error.message,
  )
}

const open = (settings: S3Settings, user: ObjectUser = 'worker', errors: Error[] = []) =>
  openObjectStore(settings, user, (error) => errors.push(error))

/** Opens the store, which must fail, and returns the message. */
const failToOpen = (settings: S3Settings, user?: ObjectUser) =>
  messageOf(open(settings, user).then((opened) => opened.close()))

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
      const message = await failToOpen(s3.settings({ S3_BUCKET: 'nowhere' }))
      expect(message).toBe(`S3_BUCKET: there is no bucket nowhere at ${s3.url}; npm run bucket:init creates it`)
    })

    it.each([
      ['key id', { S3_ACCESS_KEY_ID: 'WRONG' }, 'rejects the key id'],
      ['secret', { S3_SECRET_ACCESS_KEY: SECRET }, 'rejects the signature'],
    ])(
      'names the credentials’ settings when the store rejects the %s, without showing them',
      async (_, wrong, says) => {
        const message = await failToOpen(s3.settings(wrong))
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

  describe('npm run bucket:init', () => {
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
      expect(await failToOpen(settings)).toContain('may not put objects under media/')
      expect(await initializeBucket(settings)).toMatchObject({ publicAccessBlock: 'except BlockPublicAcls' })
      expect(await failToOpen(settings)).toBe('did not fail')
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

    it('names the setting when bucket:init cannot use the store', async () => {
      const message = await messageOf(initializeBucket(s3.settings({ S3_ACCESS_KEY_ID: 'WRONG' })))
      expect(message).toContain('S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY')
    })
  })
})
