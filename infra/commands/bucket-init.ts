import { parseArgs } from 'node:util'
import { z } from 'zod'
import { createS3Client } from '#shared/adapters/s3/client.ts'
import { type BucketPreparation, LIFECYCLE_RULES, prepareBucket } from '#shared/adapters/s3/prepare-bucket.ts'
import { objectStoreSettings, type S3Settings } from '#shared/media/object-store-settings.ts'

const RULES = LIFECYCLE_RULES.map(
  ({ Filter, Expiration: { Days: days } }) =>
    `  ${Filter.Prefix.padEnd(15)} deleted after ${days} day${days === 1 ? '' : 's'}`,
)

const HELP = `Usage: npm run bucket:init [-- --dry-run]

Creates the bucket S3_BUCKET, blocks public access to it, and writes its lifecycle rules:
${RULES.join('\n')}
These rules are a backstop: the workers delete expired objects themselves, on time. Safe to repeat.
Replaces any other lifecycle rules of the bucket.

  --dry-run   check whether the bucket exists and print what would be done
  --help      show this text

Environment: S3_BUCKET, and S3_ENDPOINT, S3_REGION, S3_ACCESS_KEY_ID, S3_SECRET_ACCESS_KEY,
S3_FORCE_PATH_STYLE, with the same values as for API and workers.`

const settingsSchema = z.object({
  ...objectStoreSettings,
  S3_BUCKET: z.string({ error: 'S3_BUCKET is not set' }).min(3).max(63),
})

/** Creates and prepares the bucket that the settings name. */
export async function initializeBucket(settings: S3Settings, dryRun = false): Promise<BucketPreparation> {
  const client = createS3Client(settings)
  try {
    return await prepareBucket(client, settings, { dryRun })
  } finally {
    client.destroy()
  }
}

async function main(): Promise<number> {
  const { values } = parseArgs({ options: { 'dry-run': { type: 'boolean' }, help: { type: 'boolean' } } })
  if (values.help) {
    console.log(HELP)
    return 0
  }
  const settings = settingsSchema.safeParse(process.env)
  if (!settings.success) {
    console.error(`${z.prettifyError(settings.error)}\n\n${HELP}`)
    return 2
  }
  try {
    printResult(settings.data, await initializeBucket(settings.data, values['dry-run'] ?? false))
    return 0
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    return 1
  }
}

function printResult({ S3_BUCKET: bucket }: S3Settings, done: BucketPreparation): void {
  console.log(`bucket ${bucket}: ${done.bucket}`)
  console.log(`public access blocked: ${done.publicAccessBlock}`)
  console.log(`lifecycle rules: ${done.lifecycleRules}`)
  if (done.publicAccessBlock === 'unsupported')
    console.log(
      'This store does not support public access blocks. Make sure that nobody can read the bucket without keys.',
    )
  if (done.lifecycleRules === 'unsupported')
    console.log('This store does not support lifecycle rules. Only the workers will delete expired objects.')
}

if (import.meta.main) process.exitCode = await main()
