import { z } from 'zod'

const privateKey = z
  .string()
  .regex(/^0x[0-9a-fA-F]{64}$/)
  .transform((text) => text as `0x${string}`)

const configSchema = z.object({
  DATABASE_URL: z.url(),
  QUEUE_URL: z.url().optional(),
  DATABASE_CONNECTIONS: z.coerce.number().int().min(2).default(10),
  OBJECT_STORE_DIRECTORY: z.string().min(1),
  RPC_URL: z.url(),
  SETTLEMENT_PRIVATE_KEYS: z
    .string()
    .transform((list) => list.split(','))
    .pipe(z.array(privateKey).nonempty()),
  /** The name of the newest of the API's receipt secrets; the secret itself stays there. */
  RECEIPT_SECRET_ID: z.string().regex(/^[a-z0-9]+$/),
  ELEVENLABS_BASE_URL: z.url().default('https://api.elevenlabs.io'),
  ELEVENLABS_API_KEY: z.string().min(1),
  ELEVENLABS_TRANSCRIPTION_MODEL: z.string().default('scribe_v2'),
  PROVIDER_TIMEOUT_SECONDS: z.coerce.number().positive().default(270),
  SETTLEMENT_MARGIN_SECONDS: z.coerce.number().positive().default(60),
  WORKER_CONCURRENCY: z.coerce.number().int().min(1).default(16),
  LEASE_SECONDS: z.coerce.number().positive().default(15),
  SWEEP_SECONDS: z.coerce.number().positive().default(1),
  LOG_LEVEL: z.enum(['debug', 'info', 'warn', 'error', 'silent']).default('info'),
})

export type WorkerConfig = Readonly<z.infer<typeof configSchema>>

/** Reads the environment once. Throws with every wrong variable named. Provider and settlement keys exist only here. */
export function readConfig(environment: NodeJS.ProcessEnv = process.env): WorkerConfig {
  const parsed = configSchema.safeParse(environment)
  if (!parsed.success) throw new Error(`invalid configuration:\n${z.prettifyError(parsed.error)}`)
  return Object.freeze(parsed.data)
}
