import { describe, expect, it } from 'vitest'
import { LIFECYCLE_RULES } from '#shared/adapters/s3/prepare-bucket.ts'
import { ARCHIVE_PREFIX } from '#shared/archive/archived-object.ts'
import { OBJECT_ACCESS, type ObjectOperation, type ObjectUser } from '#shared/media/object-access.ts'
import { RETENTION_CLASSES } from '#shared/media/retention.ts'
import { readPolicy } from '../support/deployment/bucket-policies.ts'

const ACTIONS: Readonly<Record<Exclude<ObjectOperation, 'list'>, string>> = {
  put: 's3:PutObject',
  get: 's3:GetObject',
  delete: 's3:DeleteObject',
}
const BUCKET_ARN = 'arn:aws:s3:::media-of-farebox'
const actionsOf = (operations: readonly ObjectOperation[]) =>
  operations.flatMap((operation) => (operation === 'list' ? [] : [ACTIONS[operation]]))

/** Returns the actions that a policy of the page allows, by part of the bucket. */
async function rights(name: ObjectUser | 'archive') {
  const statements = await readPolicy(name, 'media-of-farebox')
  expect(statements.every(({ Effect, Principal, Condition }) => Effect === 'Allow' && !Principal && !Condition)).toBe(
    true,
  )
  return statements.map(({ Action, Resource }) => [Resource.join(), ...Action])
}

/** Returns the rights for what a process does with the objects of each class, in the same form. */
function neededRights(process: ObjectUser) {
  const access = OBJECT_ACCESS[process]
  // Both classes of media are under one prefix.
  expect(access.speech).toEqual(access.images)
  for (const operations of Object.values(access)) expect(operations).toContain('list')
  return [
    [BUCKET_ARN, 's3:ListBucket'],
    [`${BUCKET_ARN}/${RETENTION_CLASSES.staged.prefix}/*`, ...actionsOf(access.staged)],
    [`${BUCKET_ARN}/media/*`, ...actionsOf(access.speech)],
    // The API alone reads archived receipts, when a holder asks for one.
    ...(process === 'api' ? [[`${BUCKET_ARN}/${ARCHIVE_PREFIX}/*`, 's3:GetObject']] : []),
  ]
}

describe('the policies of infra/stores.md', () => {
  it.each(['api', 'worker'] as const)(
    'give an %s exactly the rights for what it does in the bucket',
    async (process) => {
      expect(await rights(process)).toEqual(neededRights(process))
      for (const { prefix } of [RETENTION_CLASSES.speech, RETENTION_CLASSES.images]) expect(prefix).toMatch(/^media\//)
    },
  )

  it('let the archive be added to and read, never deleted from, and no lifecycle rule expires it', async () => {
    expect(await rights('archive')).toEqual([
      [BUCKET_ARN, 's3:ListBucket', 's3:GetLifecycleConfiguration'],
      [`${BUCKET_ARN}/${ARCHIVE_PREFIX}/*`, 's3:PutObject', 's3:GetObject'],
    ])
    for (const { Filter } of LIFECYCLE_RULES) {
      expect(Filter.Prefix.startsWith(ARCHIVE_PREFIX)).toBe(false)
      expect(`${ARCHIVE_PREFIX}/`.startsWith(Filter.Prefix)).toBe(false)
    }
  })

  it('refuse everybody everything without TLS, and nothing else', async () => {
    expect(await readPolicy('bucket', 'media-of-farebox')).toEqual([
      {
        Effect: 'Deny',
        Principal: '*',
        Action: ['s3:*'],
        Resource: [BUCKET_ARN, `${BUCKET_ARN}/*`],
        Condition: { BoolIfExists: { 'aws:SecureTransport': 'false' } },
      },
    ])
  })
})
