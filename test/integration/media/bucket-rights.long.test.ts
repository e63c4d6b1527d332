import { randomUUID } from 'node:crypto'
import { ListObjectsV2Command, PutBucketPolicyCommand, PutObjectCommand, type S3Client } from '@aws-sdk/client-s3'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openObjectStore } from '#shared/adapters/object-store.ts'
import { createS3Client } from '#shared/adapters/s3/client.ts'
import { OBJECT_ACCESS, type ObjectAccess, type ObjectOperation, type ObjectUser } from '#shared/media/object-access.ts'
import type { S3Settings } from '#shared/media/object-store-settings.ts'
import { RETENTION_CLASSES, type RetentionClass } from '#shared/media/retention.ts'
import { haveS3, startTestS3, type TestS3 } from '../../support/processes/s3-server.ts'

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

const without = (access: ObjectAccess, changed: RetentionClass, operation: ObjectOperation): ObjectAccess => ({
  ...access,
  [changed]: access[changed].filter((one) => one !== operation),
})

const unlisted = (operations: readonly ObjectOperation[]) => operations.filter((one) => one !== 'list')

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

  /** Lets `user` do exactly what `access` says in a new bucket, and returns the user's settings. */
  async function grant(user: string, keys: Partial<S3Settings>, access: ObjectAccess): Promise<S3Settings> {
    const bucket = `rights-${randomUUID()}`
    await s3.createBucket(bucket)
    const actions = { put: 's3:PutObject', get: 's3:GetObject', delete: 's3:DeleteObject' }
    const allow = (Action: readonly string[], Resource: string) => ({
      Effect: 'Allow',
      Principal: { AWS: `arn:aws:iam:::user/${user}` },
      Action,
      Resource,
    })
    const classes = Object.entries(access) as [RetentionClass, readonly ObjectOperation[]][]
    const Statement = classes.flatMap(([name, operations]) => [
      allow(
        operations.flatMap((operation) => (operation === 'list' ? [] : [actions[operation]])),
        `arn:aws:s3:::${bucket}/${RETENTION_CLASSES[name].prefix}/*`,
      ),
      ...(operations.includes('list') ? [allow(['s3:ListBucket'], `arn:aws:s3:::${bucket}`)] : []),
    ])
    const Policy = JSON.stringify({
      Version: '2012-10-17',
      Statement: Statement.filter(({ Action }) => Action.length),
    })
    await owner.send(new PutBucketPolicyCommand({ Bucket: bucket, Policy }))
    return s3.settings({ S3_BUCKET: bucket, ...keys })
  }

  const users: Partial<Record<ObjectUser, Partial<S3Settings>>> = {}
  beforeAll(async () => {
    for (const user of ['api', 'worker'] as const) users[user] = await s3.addUser(user)
  })

  it.each(['api', 'worker'] as const)(
    'starts an %s with the rights of OBJECT_ACCESS and leaves nothing behind',
    async (user) => {
      const settings = await grant(user, users[user] ?? {}, OBJECT_ACCESS[user])
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

  const rights = (['api', 'worker'] as const).flatMap((user) =>
    (Object.keys(RETENTION_CLASSES) as RetentionClass[]).flatMap((name) =>
      (OBJECT_ACCESS[user][name] as readonly ObjectOperation[])
        .filter((operation) => operation !== 'list')
        .map((operation) => [user, operation, name] as const),
    ),
  )
  it.each(rights)(
    'does not start an %s that may not %s objects of the class %s, and names the permission',
    async (user, operation, name) => {
      const settings = await grant(user, users[user] ?? {}, without(OBJECT_ACCESS[user], name, operation))
      await putObject(settings.S3_BUCKET, `${RETENTION_CLASSES[name].prefix}/${randomUUID()}`)
      const message = await failToOpen(settings, user)
      const permission = { put: 's3:PutObject', get: 's3:GetObject', delete: 's3:DeleteObject' }[operation]
      expect(message).toContain(`may not ${operation} objects under ${RETENTION_CLASSES[name].prefix}/ in the bucket`)
      expect(message).toContain(`grant ${permission} there`)
    },
  )

  it.each(['api', 'worker'] as const)('does not start an %s that may not list the bucket', async (user) => {
    const { staged, speech, images } = OBJECT_ACCESS[user]
    const access = { staged: unlisted(staged), speech: unlisted(speech), images: unlisted(images) }
    const message = await failToOpen(await grant(user, users[user] ?? {}, access), user)
    expect(message).toContain('grant s3:ListBucket there')
  })

  it('does not start when another user owns the bucket and has granted nothing', async () => {
    const message = await failToOpen(s3.settings(users.api), 'api')
    expect(message).toContain('S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY: these credentials may not list objects')
  })
})
