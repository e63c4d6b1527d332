import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { LIFECYCLE_RULES } from '#shared/adapters/s3/prepare-bucket.ts'
import { ARCHIVE_PREFIX } from '#shared/archive/archived-object.ts'
import { OBJECT_ACCESS, type ObjectOperation, type ObjectUser } from '#shared/media/object-access.ts'
import { RETENTION_CLASSES } from '#shared/media/retention.ts'
import { parseTerraform } from '../../support/deployment/parse-terraform.ts'

const TERRAFORM = fileURLToPath(new URL('../../../infra/terraform/', import.meta.url))

/** The parser returns HCL's blocks as lists with an entry for each occurrence. */
const block = <Shape extends z.ZodRawShape>(shape: Shape) => z.tuple([z.looseObject(shape)])

const statement = z.strictObject({
  sid: z.string(),
  actions: z.array(z.string()),
  resources: z.array(z.string()),
})
const access = block({ statement: z.array(statement) })
const moduleSchema = z.object({
  resource: z.object({
    aws_s3_bucket: z.object({ media: block({ bucket: z.literal(`\${var.bucket_name}`) }) }),
    aws_s3_bucket_public_access_block: z.object({
      media: block({
        block_public_acls: z.literal(true),
        ignore_public_acls: z.literal(true),
        block_public_policy: z.literal(true),
        restrict_public_buckets: z.literal(true),
      }),
    }),
    aws_s3_bucket_server_side_encryption_configuration: z.object({
      media: block({ rule: block({ apply_server_side_encryption_by_default: block({ sse_algorithm: z.string() }) }) }),
    }),
    aws_s3_bucket_lifecycle_configuration: z.object({
      media: block({
        rule: z.array(
          z.strictObject({
            id: z.string(),
            status: z.string(),
            filter: z.tuple([z.strictObject({ prefix: z.string() })]),
            expiration: z.tuple([z.strictObject({ days: z.number() })]),
          }),
        ),
      }),
    }),
  }),
  data: z.object({ aws_iam_policy_document: z.object({ api: access, worker: access, archive: access }) }),
  variable: z.record(z.string(), block({ description: z.string(), type: z.string() })),
  output: z.record(z.string(), block({ description: z.string(), value: z.string() })),
})
type Module = z.infer<typeof moduleSchema>

let parts: Module
let text = ''
beforeAll(async () => {
  const names = (await readdir(TERRAFORM)).filter((name) => name.endsWith('.tf'))
  // A module consists of all its files, in any order.
  text = (await Promise.all(names.map((name) => readFile(join(TERRAFORM, name), 'utf8')))).join('\n')
  parts = moduleSchema.parse(await parseTerraform(text))
})

test('the bucket’s lifecycle rules equal those of npm run bucket:init', () => {
  const [{ rule }] = parts.resource.aws_s3_bucket_lifecycle_configuration.media
  const asWritten = rule.map(({ id, status, filter: [{ prefix }], expiration: [{ days }] }) => ({
    ID: id,
    Status: status,
    Filter: { Prefix: prefix },
    Expiration: { Days: days },
  }))
  expect(asWritten).toEqual(LIFECYCLE_RULES)
})

test('every resource of the bucket refers to the same bucket', () => {
  const parts = [...text.matchAll(/^resource "aws_s3_bucket_\w+" "media" \{(.*?)^\}/gms)].map(([, body = '']) => body)
  expect(parts.length).toBeGreaterThanOrEqual(4)
  expect(parts.filter((body) => !/^ {2}bucket = aws_s3_bucket\.media\.id$/m.test(body))).toEqual([])
})

test('every reference of the module is declared', () => {
  const referred = (pattern: RegExp) => [...new Set([...text.matchAll(pattern)].map(([, name = '']) => name))].sort()
  expect(referred(/\bvar\.(\w+)/g)).toEqual(Object.keys(parts.variable).sort())
  const declared = [...text.matchAll(/^resource "(\w+)" "(\w+)"/gm)].map(([, kind, name]) => `${kind}.${name}`)
  const documents = [...text.matchAll(/^data "(\w+)" "(\w+)"/gm)].map(([, kind, name]) => `data.${kind}.${name}`)
  const code = text.replace(/^\s*(resource|data|#).*$/gm, '')
  for (const name of referred(/(?<!data\.)\b(aws_\w+\.\w+)/g)) expect(declared).toContain(name)
  for (const name of referred(/\b(data\.aws_\w+\.\w+)/g)) expect(documents).toContain(name)
  expect(code).not.toMatch(/\b(AKIA|aws_access_key|secret_key)/)
})

/** Returns the actions that a process may perform, by part of the bucket. */
function rights(process: ObjectUser | 'archive') {
  const [{ statement: statements }] = parts.data.aws_iam_policy_document[process]
  return statements.map(({ actions, resources }) => [
    resources.map((resource) => resource.replace(`\${aws_s3_bucket.media.arn}`, 'bucket')).join(),
    ...actions,
  ])
}

const OBJECT_ACTIONS = { put: 's3:PutObject', get: 's3:GetObject', delete: 's3:DeleteObject' } as const
const actionsOf = (operations: readonly ObjectOperation[]) =>
  operations.flatMap((operation) => (operation === 'list' ? [] : [OBJECT_ACTIONS[operation]]))

/** The rights for what a process does with the objects of each class, in the form of `rights`. */
function neededRights(process: ObjectUser) {
  const access = OBJECT_ACCESS[process]
  // Both classes of media are under one prefix.
  expect(access.speech).toEqual(access.images)
  for (const operations of Object.values(access)) expect(operations).toContain('list')
  return [
    ['bucket', 's3:ListBucket'],
    [`bucket/${RETENTION_CLASSES.staged.prefix}/*`, ...actionsOf(access.staged)],
    ['bucket/media/*', ...actionsOf(access.speech)],
    // The API alone reads archived receipts, when a holder asks for one.
    ...(process === 'api' ? [[`bucket/${ARCHIVE_PREFIX}/*`, 's3:GetObject']] : []),
  ]
}

test.each(['api', 'worker'] as const)('an %s has exactly the rights for what it does in the bucket', (process) => {
  expect(rights(process)).toEqual(neededRights(process))
  for (const { prefix } of [RETENTION_CLASSES.speech, RETENTION_CLASSES.images]) expect(prefix).toMatch(/^media\//)
})

test('the archive is added to and read, never deleted from, and no lifecycle rule expires it', () => {
  expect(rights('archive')).toEqual([
    ['bucket', 's3:ListBucket', 's3:GetLifecycleConfiguration'],
    [`bucket/${ARCHIVE_PREFIX}/*`, 's3:PutObject', 's3:GetObject'],
  ])
  for (const { Filter } of LIFECYCLE_RULES) {
    expect(Filter.Prefix.startsWith(ARCHIVE_PREFIX)).toBe(false)
    expect(`${ARCHIVE_PREFIX}/`.startsWith(Filter.Prefix)).toBe(false)
  }
})

test('the parser rejects a file that is not HCL', async () => {
  await expect(parseTerraform('resource "aws_s3_bucket" "media" {')).rejects.toBeDefined()
})
