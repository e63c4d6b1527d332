import { z } from 'zod'
import { queueSettings } from '#shared/jobs/queue-settings.ts'
import { checkObjectStore, objectStoreSettings } from '#shared/media/object-store-settings.ts'
import { workerQueueSettings } from './queue-settings.ts'

const privateKey = z
  .string()
  .regex(/^0x[0-9a-fA-F]{64}$/)
  .transform((text) => text as `0x${string}`)

const settingsSchema = z.object({
  DATABASE_URL: z.url(),
  ...queueSettings,
  ...workerQueueSettings,
  ...objectStoreSettings,
  DATABASE_CONNECTIONS: z.coerce.number().int().min(2).default(10),
  RPC_URL: z.url(),
  /** Only a worker that serves the settlement queue needs them. */
  SETTLEMENT_PRIVATE_KEYS: z
    .string()
    .transform((list) => list.split(','))
    .pipe(z.array(privateKey).nonempty())
    .optional(),
  /** The name of the newest of the API's receipt secrets; the secret itself stays there. */
  RECEIPT_SECRET_ID: z.string().regex(/^[a-z0-9]+$/),
  /** How callers reach the API; it stands in the media URLs of results. */
  PUBLIC_BASE_URL: z.url(),
  /** The private file that says which upstreams serve which public models. */
  DEPLOYMENTS_FILE: z.string().min(1),
  /** An OpenAI-style moderation API; without it nothing is screened here. */
  SCREENING_BASE_URL: z.url().optional(),
  SCREENING_API_KEY: z.string().min(1).optional(),
  SCREENING_MODEL: z.string().min(1).optional(),
  PROVIDER_TIMEOUT_SECONDS: z.coerce.number().positive().default(270),
  SETTLEMENT_MARGIN_SECONDS: z.coerce.number().positive().default(60),
  LEASE_SECONDS: z.coerce.number().positive().default(15),
  SWEEP_SECONDS: z.coerce.number().positive().default(1),
  /** Where Prometheus scrapes this worker; nothing listens without it. */
  METRICS_PORT: z.coerce.number().int().min(0).max(65_535).optional(),
  METRICS_HOST: z.string().default('127.0.0.1'),
  LOG_LEVEL: z.enum(['debug', 'info', 'warn', 'error', 'silent']).default('info'),
})

const configSchema = settingsSchema.check(checkObjectStore, ({ value, issues }) => {
  if (value.SETTLEMENT_PRIVATE_KEYS !== undefined || !value.WORKER_QUEUES.includes('settlement')) return
  const message = 'the settlement queue, which WORKER_QUEUES includes, cannot be served without SETTLEMENT_PRIVATE_KEYS'
  issues.push({ code: 'custom', path: ['SETTLEMENT_PRIVATE_KEYS'], message, input: undefined })
})

export type WorkerConfig = Readonly<z.infer<typeof configSchema>> & {
  /** Where the deployments file's `api_key_env` names are looked up. */
  readonly environment: Readonly<Record<string, string | undefined>>
}

/** Reads the environment once. Throws with every wrong variable named. Provider and settlement keys exist only here. */
export function readConfig(environment: NodeJS.ProcessEnv = process.env): WorkerConfig {
  const parsed = configSchema.safeParse(environment)
  if (!parsed.success) throw new Error(`invalid configuration:\n${z.prettifyError(parsed.error)}`)
  return Object.freeze({ ...parsed.data, environment })
}
