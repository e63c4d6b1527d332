import type { S3Client } from '@aws-sdk/client-s3'
import { z } from 'zod'
import {
  type BucketPreparation,
  bucketExists,
  LIFECYCLE_RULES,
  prepareBucket,
} from '#shared/adapters/s3/prepare-bucket.ts'
import { createS3Client } from '#shared/adapters/s3/s3-client.ts'
import { objectStoreSettings, type S3Settings } from '#shared/media/object-store-settings.ts'
import { checkedFlags, checkedSettings, createMain, Refusal } from '../command-line.ts'

const [USABLE, UNUSABLE] = [0, 1]
const PREFIXES = LIFECYCLE_RULES.map(({ Filter }) => Filter.Prefix)
const RULES = LIFECYCLE_RULES.map(
  ({ Filter, Expiration: { Days: days } }) =>
    `  ${Filter.Prefix.padEnd(15)} deleted after ${days} day${days === 1 ? '' : 's'}`,
)

const DESCRIPTION = `Creates the bucket S3_BUCKET, blocks public access to it, and writes its lifecycle rules:
${RULES.join('\n')}
These rules are a backstop: the workers delete expired objects themselves, on time. Safe to repeat.
Replaces any other lifecycle rules of the bucket.

Then it writes, reads, lists and deletes a small object under each of these prefixes, and tries to read one without keys.
If the store refuses writes under a complete public access block, it uses a weaker one and says so.`

const NOTES = `
Environment: S3_BUCKET, and S3_ENDPOINT, S3_REGION, S3_ACCESS_KEY_ID, S3_SECRET_ACCESS_KEY, S3_FORCE_PATH_STYLE, with the
same values as for API and workers.

Exit code: 0 when the bucket can be used, 1 when it cannot, or when anyone can read it, 2 for wrong usage.`

const BLOCKS = {
  done: 'done',
  unsupported: 'unsupported. By default buckets of such stores are private',
  'except BlockPublicAcls': `all but BlockPublicAcls, with which this store refuses every upload. It was
  taken back, and the bucket’s ACL is private; IgnorePublicAcls leaves other ACLs without effect`,
  'no block': `none. With it this store refuses every upload. It was taken back, and the bucket’s ACL is private`,
} as const satisfies Record<BucketPreparation['publicAccessBlock'], string>

const settingsSchema = z.object({
  ...objectStoreSettings,
  S3_BUCKET: z.string({ error: 'is not set' }).min(3).max(63),
})

/** Creates and prepares the bucket that the settings name. */
export async function initializeBucket(settings: S3Settings): Promise<BucketPreparation> {
  return await withClient(settings, (client) => prepareBucket(client, settings))
}

async function withClient<T>(settings: S3Settings, work: (client: S3Client) => Promise<T>): Promise<T> {
  const client = createS3Client(settings)
  try {
    return await work(client)
  } finally {
    client.destroy()
  }
}

const optionsSchema = z.object({ dryRun: z.boolean().default(false) })

/** Runs the command and returns its exit code. */
export const main = createMain('infra/commands/bucket-init/main.ts', (command, run) =>
  command
    .description(DESCRIPTION)
    .option('--dry-run', 'check whether the bucket exists and print what would be done')
    .addHelpText('after', NOTES)
    .action(
      run(async (flags, environment) => {
        const { dryRun } = checkedFlags(optionsSchema, flags)
        const settings = checkedSettings(settingsSchema, environment)
        try {
          if (!dryRun) return printResult(settings, await initializeBucket(settings))
          printPlan(settings, await withClient(settings, (client) => bucketExists(client, settings)))
          return USABLE
        } catch (error) {
          throw new Refusal(error instanceof Error ? error.message : String(error))
        }
      }),
    ),
)

function printPlan({ S3_BUCKET: bucket }: S3Settings, exists: boolean): void {
  console.log(`bucket ${bucket}: ${exists ? 'already there' : 'would be created'}`)
  console.log('public access would be blocked, lifecycle rules written, and every operation tried')
}

function printResult({ S3_BUCKET: bucket }: S3Settings, done: BucketPreparation): number {
  console.log(`bucket ${bucket}: ${done.bucket}`)
  console.log(`public access blocked: ${BLOCKS[done.publicAccessBlock]}`)
  console.log(`lifecycle rules: ${done.lifecycleRules}`)
  if (done.lifecycleRules === 'unsupported') console.log('  Only the workers will delete expired objects.')
  console.log(`objects written, read, listed and deleted under ${PREFIXES.join(', ')}`)
  if (!done.isPublic) {
    console.log('reads without keys: refused')
    return USABLE
  }
  console.error(
    `S3_BUCKET: ANYONE CAN READ ${bucket} without keys. Remove what its policy, its ACL or the store’s settings grant to everyone.`,
  )
  return UNUSABLE
}

if (import.meta.main) process.exitCode = await main(process.argv.slice(2), process.env)
