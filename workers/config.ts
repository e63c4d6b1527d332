import { z } from 'zod'
import { feeSettings } from '#shared/catalog/fee-limit.ts'
import { parseProviderKeys } from '#shared/catalog/provider-keys.ts'
import { QUEUE_NAMES, type QueueName } from '#shared/jobs/job-queue.ts'
import { queueSettings } from '#shared/jobs/queue-settings.ts'
import { checkObjectStore, objectStoreSettings } from '#shared/media/object-store-settings.ts'
import { callTimeSettings, checkCallTimes } from '#shared/operations/text/output-time.ts'
import { accountAddresses, privateKey } from '#shared/payment/account-settings.ts'
import { chainHeadSettings, chainSettings } from '#shared/payment/chain-settings.ts'
import { dollars, exposureSettings } from '#shared/payment/exposure-settings.ts'
import { payerCodeSettings } from '#shared/payment/payer-code-settings.ts'
import { checkSettlementContract, settlementContractSettings } from '#shared/payment/settlement-contract-settings.ts'
import { LONGEST_WAIT_SECONDS, parseSettings } from '#shared/runtime/parse-settings.ts'
import { telemetrySettings } from '#shared/runtime/telemetry-settings.ts'

/** All settings of a worker. Deployment files are checked against this schema. */
export const settingsSchema = z.object({
  DATABASE_URL: z.url({ protocol: /^postgres(ql)?$/, error: 'must be a postgres:// URL' }),
  ...queueSettings,
  /** Defaults to all queues; `settlement` alone makes a process that only settles. */
  WORKER_QUEUES: z
    .string()
    .default(QUEUE_NAMES.join(','))
    .transform((list) => list.split(',').map((name) => name.trim()))
    .pipe(z.array(z.enum(QUEUE_NAMES)).nonempty()),
  /**
   * Jobs of each queue that are prepared, call a provider or sign at the same time. Those that wait for the chain do not
   * count. High, since memory and each deployment have limits of their own.
   */
  WORKER_CONCURRENCY: z.coerce.number().int().min(1).default(1000),
  /** How long jobs may continue after a signal; the process manager needs a few seconds more. */
  DRAIN_SECONDS: z.coerce.number().positive().max(LONGEST_WAIT_SECONDS).default(30),
  /**
   * What the jobs of a worker may hold in memory, in MiB: uploads, requests, images and answers. The minimum is what the
   * largest request needs: 40 MiB of text and images, and 20 MiB of images that it references by URL.
   */
  MAXIMUM_JOB_MEGABYTES: z.coerce.number().int().min(320).default(512),
  ...objectStoreSettings,
  DATABASE_CONNECTIONS: z.coerce.number().int().min(2).default(10),
  ...exposureSettings,
  ...chainSettings,
  ...chainHeadSettings,
  ...payerCodeSettings,
  /** Required, unless FACILITATOR_URL is set, for a worker that serves the settlement queue. */
  SETTLEMENT_PRIVATE_KEYS: z
    .string()
    .transform((list) => list.split(','))
    .pipe(z.array(privateKey).nonempty())
    .optional(),
  /**
   * The addresses of the keys, for a worker without them: it starts no call for the settlement contract while none of
   * those that the contract lists has gas.
   */
  FACILITATOR_ADDRESSES: accountAddresses.optional(),
  ...settlementContractSettings,
  /**
   * The gas limit of a transaction that settles many payments through SETTLEMENT_CONTRACT. The default is the most that
   * Ethereum lets one transaction have, rounded down; about 70 payments.
   */
  SETTLEMENT_BATCH_GAS: z.coerce.bigint().min(500_000n).default(16_000_000n),
  /** A remote facilitator that settles with its own keys, instead of SETTLEMENT_PRIVATE_KEYS. */
  FACILITATOR_URL: z.url().optional(),
  FACILITATOR_API_KEY: z.string().min(1).optional(),
  /** Id of the newest of the API's receipt secrets; the secret itself stays in the API. */
  RECEIPT_SECRET_ID: z.string().regex(/^[a-z0-9]+$/),
  /** Public URL of the API, used in the media URLs of results. */
  PUBLIC_BASE_URL: z.url(),
  /** Private file that maps public models to upstream deployments. */
  DEPLOYMENTS_FILE: z.string().min(1),
  /**
   * Where keys may be sent, whatever is published: `NAME=https://host`, comma-separated, and `none=http://host` for what
   * is called without a key and without TLS. Default: what DEPLOYMENTS_FILE names.
   */
  PROVIDER_KEYS: z
    .string()
    .transform((text, { issues }) => {
      try {
        return parseProviderKeys(text)
      } catch (error) {
        issues.push({ code: 'custom', message: error instanceof Error ? error.message : 'not valid', input: undefined })
        return z.NEVER
      }
    })
    .optional(),
  /** An OpenAI-style moderation API for the texts of requests; nothing is screened without it, and images never are. */
  SCREENING_BASE_URL: z.url().optional(),
  SCREENING_API_KEY: z.string().min(1).optional(),
  SCREENING_MODEL: z.string().min(1).optional(),
  /** Converts speech that an engine sends in another format than MP3; default: the `ffmpeg` of PATH. */
  FFMPEG_PATH: z.string().optional(),
  PATH: z.string().default(''),
  ...callTimeSettings,
  /** A transaction at the head of its nonce queue that is not mined within this time is replaced with a higher fee. */
  FEE_BUMP_AFTER_SECONDS: z.coerce.number().positive().default(15),
  ...feeSettings,
  /** There is an alert when the charges of 24 hours, less vendors and gas, are below this. */
  MINIMUM_DAILY_MARGIN_USDC: dollars('0'),
  /** Confirmations, the settlement's own block included, before its result is released. */
  CONFIRMATIONS: z.coerce.number().int().min(1).default(1),
  LEASE_SECONDS: z.coerce.number().positive().max(LONGEST_WAIT_SECONDS).default(15),
  /** How long results are kept for replay, at least a day; receipts are kept permanently. */
  RESULT_RETENTION_HOURS: z.coerce.number().min(24).default(168),
  ...telemetrySettings,
  LOG_LEVEL: z.enum(['debug', 'info', 'warn', 'error', 'silent']).default('info'),
})

const configSchema = settingsSchema.check(
  checkObjectStore,
  checkCallTimes,
  checkSettlementContract,
  ({ value, issues }) => {
    const { SETTLEMENT_PRIVATE_KEYS: keys, FACILITATOR_URL: url, WORKER_QUEUES: queues } = value
    if ((keys === undefined) !== (url === undefined)) return
    // A worker that only calls providers needs no way to settle.
    if (keys === undefined && !queues.includes('settlement')) return
    const message =
      'set exactly one of SETTLEMENT_PRIVATE_KEYS (settle with your own keys) and FACILITATOR_URL; ' +
      'neither is needed only when WORKER_QUEUES leaves settlement to other workers'
    issues.push({ code: 'custom', path: ['SETTLEMENT_PRIVATE_KEYS'], message, input: undefined })
  },
)

export type WorkerConfig = Readonly<z.infer<typeof configSchema>> & {
  /** Where the `api_key_env` names of the deployments file are looked up. */
  readonly environment: Readonly<Record<string, string | undefined>>
}

/**
 * Reads the environment once. Throws an error that names every wrong variable. Only workers have provider and
 * settlement keys.
 */
export function readConfig(environment: NodeJS.ProcessEnv = process.env): WorkerConfig {
  const settings = parseSettings(configSchema, Object.keys(settingsSchema.shape), environment)
  return Object.freeze({ ...settings, environment })
}

/** Returns how many jobs of each served queue run concurrently. */
export function concurrencyOf({ WORKER_QUEUES: queues, WORKER_CONCURRENCY: jobs }: WorkerConfig) {
  return new Map<QueueName, number>(queues.map((name) => [name, jobs]))
}
