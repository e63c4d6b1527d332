import { z } from 'zod'

const address = z
  .string()
  .regex(/^0x[0-9a-fA-F]{40}$/)
  .transform((text) => text.toLowerCase() as `0x${string}`)

/** `newest:secret,older:secret`: tokens are issued under the first and accepted under all. */
const receiptSecrets = z
  .string()
  .transform((list) => list.split(',').map((entry) => entry.split(':')))
  .pipe(z.array(z.tuple([z.string().regex(/^[a-z0-9]+$/), z.string().min(32)])).nonempty())
  .transform((entries) => entries.map(([id, secret]) => ({ id, secret })))

const variables = z.object({
  HOST: z.string().default('127.0.0.1'),
  PORT: z.coerce.number().int().min(0).max(65_535).default(8402),
  PUBLIC_BASE_URL: z.url(),
  DATABASE_URL: z.url(),
  QUEUE_URL: z.url().optional(),
  DATABASE_CONNECTIONS: z.coerce.number().int().min(1).default(10),
  OBJECT_STORE_DIRECTORY: z.string().min(1),
  RPC_URL: z.url(),
  PAY_TO: address,
  FACILITATOR_ADDRESSES: z
    .string()
    .transform((list) => list.split(','))
    .pipe(z.array(address).nonempty())
    .optional(),
  /** A facilitator that settles with keys of its own; its addresses come from it, in place of FACILITATOR_ADDRESSES. */
  FACILITATOR_URL: z.url().optional(),
  FACILITATOR_API_KEY: z.string().min(1).optional(),
  /** `/readyz` warns when a settlement key can pay for fewer settlements than this. */
  GAS_WARNING_SETTLEMENTS: z.coerce.number().int().min(1).default(1000),
  CHALLENGE_SECRET: z.string().min(32),
  RECEIPT_SECRETS: receiptSecrets,
  CHALLENGE_LIFETIME_SECONDS: z.coerce.number().int().positive().default(600),
  AUTHORIZATION_LIFETIME_SECONDS: z.coerce.number().int().positive().default(900),
  MINIMUM_AUTHORIZATION_SECONDS: z.coerce.number().int().positive().default(360),
  HOLD_SECONDS: z.coerce.number().positive().default(280),
  /** The private file that says which upstreams serve which public models; the API reads the model ids only. */
  DEPLOYMENTS_FILE: z.string().min(1),
  /** Overrides of prices and availability. */
  CATALOG_FILE: z.string().min(1).optional(),
  CONTACT_EMAIL: z.email(),
  /** Addresses or networks of the proxies whose X-Forwarded-For counts, comma-separated; none when left out. */
  TRUSTED_PROXIES: z
    .string()
    .transform((list) => list.split(','))
    .optional(),
  /** Of one client address; bursts up to a minute's worth. */
  REQUESTS_PER_MINUTE: z.coerce.number().int().positive().default(6000),
  FFMPEG_PATH: z.string().optional(),
  PATH: z.string().default(''),
  DECODERS: z.coerce.number().int().min(1).default(2),
  DECODER_WAITING: z.coerce.number().int().min(0).default(32),
  LOG_LEVEL: z.enum(['debug', 'info', 'warn', 'error', 'silent']).default('info'),
})

const configSchema = variables.refine(
  ({ FACILITATOR_ADDRESSES: addresses, FACILITATOR_URL: url }) => (addresses === undefined) !== (url === undefined),
  { error: 'set exactly one of FACILITATOR_ADDRESSES (of the workers’ settlement keys) and FACILITATOR_URL' },
)

export type ApiConfig = Readonly<z.infer<typeof configSchema>>

/** Reads the environment once. Throws with every wrong variable named. The API holds no private key. */
export function readConfig(environment: NodeJS.ProcessEnv = process.env): ApiConfig {
  const parsed = configSchema.safeParse(environment)
  if (!parsed.success) throw new Error(`invalid configuration:\n${z.prettifyError(parsed.error)}`)
  return Object.freeze(parsed.data)
}
