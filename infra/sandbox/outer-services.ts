import { randomBytes } from 'node:crypto'
import { z } from 'zod'
import { queueSettings } from '#shared/jobs/queue-settings.ts'
import { objectStoreSettings } from '#shared/media/object-store-settings.ts'

const { QUEUE_URL, QUEUE_PREFIX } = queueSettings
const { OBJECT_STORE_DIRECTORY: _, ...s3Settings } = objectStoreSettings

const environmentSchema = z.object({
  QUEUE_URL,
  QUEUE_PREFIX: QUEUE_PREFIX.unwrap().optional(),
  ...s3Settings,
  S3_FORCE_PATH_STYLE: z.stringbool().default(true),
})

/** Settings of API and worker for services that the sandbox does not start itself. */
export type OuterServices = Readonly<Record<string, string>>

/**
 * Reads the services that the caller already runs: a queue (`QUEUE_URL`) and an S3 store (`S3_ENDPOINT`, whose bucket is created
 * when it is missing). Throws an error that names every invalid variable.
 */
export async function findOuterServices(environment: NodeJS.ProcessEnv = process.env): Promise<OuterServices> {
  const parsed = environmentSchema.safeParse(environment)
  if (!parsed.success) throw new Error(z.prettifyError(parsed.error))
  const { QUEUE_URL: queueUrl, QUEUE_PREFIX: prefix, ...s3 } = parsed.data
  return { ...(queueUrl === undefined ? {} : queueAt(queueUrl, prefix)), ...(await objectStoreOf(s3)) }
}

/** Uses a random prefix: sandboxes on one Redis must not take each other's jobs, and a restarted one needs none of them. */
function queueAt(queueUrl: string, prefix = `{farebox-${randomBytes(4).toString('hex')}}`): OuterServices {
  return { QUEUE_URL: queueUrl, QUEUE_PREFIX: prefix }
}

type S3Environment = Omit<z.infer<typeof environmentSchema>, 'QUEUE_URL' | 'QUEUE_PREFIX'>

async function objectStoreOf(given: S3Environment): Promise<OuterServices> {
  const { S3_ENDPOINT, S3_REGION, S3_BUCKET = 'farebox-sandbox', S3_ACCESS_KEY_ID, S3_SECRET_ACCESS_KEY } = given
  if (S3_ENDPOINT === undefined) return {}
  if (S3_ACCESS_KEY_ID === undefined || S3_SECRET_ACCESS_KEY === undefined)
    throw new Error('S3_ENDPOINT is set, but not both S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY')
  const settings = { S3_ENDPOINT, S3_REGION, S3_BUCKET, S3_ACCESS_KEY_ID, S3_SECRET_ACCESS_KEY }
  const { initializeBucket } = await import('../commands/bucket-init/main.ts')
  await initializeBucket({ ...settings, S3_FORCE_PATH_STYLE: given.S3_FORCE_PATH_STYLE })
  return { ...settings, S3_FORCE_PATH_STYLE: String(given.S3_FORCE_PATH_STYLE) }
}
