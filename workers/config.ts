import { z } from 'zod'
import { queueSettings } from '#shared/jobs/queue-settings.ts'
import { checkObjectStore, objectStoreSettings } from '#shared/media/object-store-settings.ts'
import { StartFailure } from '#shared/runtime/start-process.ts'
import { telemetrySettings } from '#shared/runtime/telemetry-settings.ts'
import { workerQueueSettings } from './queue-settings.ts'

const privateKey = z
  .string()
  .regex(/^0x[0-9a-fA-F]{64}$/)
  .transform((text) => text as `0x${string}`)

/** What may be set; files that deploy this process are checked against it. */
export const settingsSchema = z.object({
  DATABASE_URL: z.url({ protocol: /^postgres(ql)?$/, error: 'must be a postgres:// URL' }),
  ...queueSettings,
  ...workerQueueSettings,
  ...objectStoreSettings,
  DATABASE_CONNECTIONS: z.coerce.number().int().min(2).default(10),
  RPC_URL: z.url(),
  RPC_TIMEOUT_MS: z.coerce.number().int().positive().default(5000),
  /** Only a worker that serves the settlement queue needs them, or a FACILITATOR_URL in their place. */
  SETTLEMENT_PRIVATE_KEYS: z
    .string()
    .transform((list) => list.split(','))
    .pipe(z.array(privateKey).nonempty())
    .optional(),
  /** A facilitator that settles with keys of its own, in place of SETTLEMENT_PRIVATE_KEYS. */
  FACILITATOR_URL: z.url().optional(),
  FACILITATOR_API_KEY: z.string().min(1).optional(),
  FACILITATOR_TIMEOUT_SECONDS: z.coerce.number().positive().default(30),
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
  /** A transaction that is next in line and is not mined within this time is signed again with a higher fee. */
  FEE_BUMP_AFTER_SECONDS: z.coerce.number().positive().default(15),
  /** No transaction offers more than this for a unit of gas. */
  MAXIMUM_FEE_PER_GAS_WEI: z.coerce.bigint().positive().optional(),
  /** How many blocks must stand on a settlement, its own counted, before its result is released. */
  CONFIRMATIONS: z.coerce.number().int().min(1).default(1),
  /** Warn when a settlement key can pay for fewer settlements than this. */
  GAS_WARNING_SETTLEMENTS: z.coerce.number().int().min(1).default(1000),
  LEASE_SECONDS: z.coerce.number().positive().default(15),
  /** How long results are kept for replay, at least a day; receipts are kept for good. */
  RESULT_RETENTION_HOURS: z.coerce.number().min(24).default(168),
  SWEEP_SECONDS: z.coerce.number().positive().default(1),
  ...telemetrySettings,
  LOG_LEVEL: z.enum(['debug', 'info', 'warn', 'error', 'silent']).default('info'),
})

const configSchema = settingsSchema.check(checkObjectStore, ({ value, issues }) => {
  const { SETTLEMENT_PRIVATE_KEYS: keys, FACILITATOR_URL: url, WORKER_QUEUES: queues } = value
  if ((keys === undefined) !== (url === undefined)) return
  // Whoever only calls providers needs no way to settle.
  if (keys === undefined && !queues.includes('settlement')) return
  const message =
    'set exactly one of SETTLEMENT_PRIVATE_KEYS (settle with keys of our own) and FACILITATOR_URL; ' +
    'neither only where WORKER_QUEUES leaves settlement to others'
  issues.push({ code: 'custom', path: ['SETTLEMENT_PRIVATE_KEYS'], message, input: undefined })
})

export type WorkerConfig = Readonly<z.infer<typeof configSchema>> & {
  /** Where the deployments file's `api_key_env` names are looked up. */
  readonly environment: Readonly<Record<string, string | undefined>>
}

/** Reads the environment once. Throws with every wrong variable named. Provider and settlement keys exist only here. */
export function readConfig(environment: NodeJS.ProcessEnv = process.env): WorkerConfig {
  const parsed = configSchema.safeParse(environment)
  if (!parsed.success) throw new StartFailure(`invalid configuration:\n${z.prettifyError(parsed.error)}`)
  return Object.freeze({ ...parsed.data, environment })
}
