import { z } from 'zod'
import { feeSettings } from '#shared/catalog/fee-limit.ts'
import { queueSettings } from '#shared/jobs/queue-settings.ts'
import { checkObjectStore, objectStoreSettings } from '#shared/media/object-store-settings.ts'
import { callTimeSettings, checkCallTimes } from '#shared/operations/text/output-time.ts'
import { accountAddress, accountAddresses } from '#shared/payment/account-settings.ts'
import { chainHeadSettings, chainSettings } from '#shared/payment/chain-settings.ts'
import { exposureSettings, newPayerSettings } from '#shared/payment/exposure-settings.ts'
import { payerCodeSettings } from '#shared/payment/payer-code-settings.ts'
import { checkSettlementContract, settlementContractSettings } from '#shared/payment/settlement-contract-settings.ts'
import { LONGEST_WAIT_SECONDS, parseSettings } from '#shared/runtime/parse-settings.ts'
import { telemetrySettings } from '#shared/runtime/telemetry-settings.ts'
import { trustedProxies } from '#shared/runtime/trusted-proxies.ts'

/** `newest,older`: challenges are issued under the first secret and accepted under all. */
const challengeSecrets = z
  .string()
  .transform((list) => list.split(','))
  .pipe(z.tuple([z.string().min(32)], z.string().min(32)))

/** Reads `id:key,id:key`. Of two keys with one id, only the first would be found again. */
function keysWithIds(key: z.ZodString) {
  return z
    .string()
    .transform((list) => list.split(',').map((entry) => entry.split(':')))
    .pipe(z.array(z.tuple([z.string().regex(/^[a-z0-9]+$/), key])).nonempty())
    .refine((entries) => new Set(entries.map(([id]) => id)).size === entries.length, 'each needs an id of its own')
}

/** Tokens are issued with the first secret and accepted with all. */
const receiptSecrets = keysWithIds(z.string().min(32)).transform((entries) =>
  entries.map(([id, secret]) => ({ id, secret })),
)

/** The first key signs, the public keys of all are published. */
const signingSeeds = keysWithIds(z.string().regex(/^(?!0+$)[0-9a-f]{64}$/)).transform((entries) =>
  entries.map(([id, seed]) => ({ id, seed })),
)

/** A URI that RFC 9116 (section 2.5.3) allows, in ASCII: one that a browser or a mail program opens. */
const securityContact = z.string().regex(/^(mailto:[^\s@]+@[^\s@]+|https:\/\/[\x21-\x7e]+|tel:[+\d-]+)$/, {
  error: 'must be a URI such as mailto:security@farebox.example or https://farebox.example/security',
})

/** All settings; tests check the deployment files against them. */
export const settingsSchema = z.object({
  HOST: z.string().default('127.0.0.1'),
  PORT: z.coerce.number().int().min(0).max(65_535).default(8402),
  PUBLIC_BASE_URL: z.url(),
  DATABASE_URL: z.url({ protocol: /^postgres(ql)?$/, error: 'must be a postgres:// URL' }),
  ...queueSettings,
  ...objectStoreSettings,
  DATABASE_CONNECTIONS: z.coerce.number().int().min(1).default(10),
  /** Serves media through this process, or by redirecting to a link of the object store that is valid for a minute. */
  MEDIA_DELIVERY: z.enum(['proxy', 'redirect']).default('proxy'),
  ...chainSettings,
  ...chainHeadSettings,
  ...feeSettings,
  /** Whether a call costs at least what its settlement is expected to cost when it is quoted. */
  MINIMUM_CHARGE_FOLLOWS_GAS: z.stringbool().default(false),
  /**
   * The recipient of payments. While it is being replaced, a second address: challenges name the first one, and payments
   * that were signed for either are accepted.
   */
  PAY_TO: accountAddresses,
  ...payerCodeSettings,
  FACILITATOR_ADDRESSES: accountAddresses.optional(),
  ...settlementContractSettings,
  /**
   * What payments may name although challenges do not: settlement keys, or settlement contracts, that are being added or
   * removed.
   */
  ACCEPTED_FACILITATOR_ADDRESSES: accountAddresses.optional(),
  /**
   * A remote facilitator, which settles with its own keys; its addresses are read from it instead of
   * FACILITATOR_ADDRESSES.
   */
  FACILITATOR_URL: z.url().optional(),
  FACILITATOR_API_KEY: z.string().min(1).optional(),
  /** A file of addresses that may not pay, one a line, `#` begins a comment; read again within 30 seconds of a change. */
  PAYER_SCREENING_FILE: z.string().min(1).optional(),
  /** A contract with `isSanctioned(address)`, such as Chainalysis' oracle, that every payer is asked about. */
  PAYER_SCREENING_ORACLE: accountAddress.optional(),
  CHALLENGE_SECRET: challengeSecrets,
  RECEIPT_SECRETS: receiptSecrets,
  RECEIPT_SIGNING_KEY: signingSeeds,
  ...callTimeSettings,
  ...exposureSettings,
  ...newPayerSettings,
  HOLD_SECONDS: z.coerce.number().positive().max(LONGEST_WAIT_SECONDS).default(280),
  /** After SIGTERM: how long /readyz returns 503 while requests are still served, until load balancers send no more. */
  DRAIN_NOTICE_SECONDS: z.coerce.number().min(0).max(LONGEST_WAIT_SECONDS).default(5),
  /** How long held callers may then keep waiting, before a 503 lets them attach to another process. */
  DRAIN_SECONDS: z.coerce.number().positive().max(LONGEST_WAIT_SECONDS).default(30),
  /** The private file that maps public models to upstream deployments; the API reads ids of models and voices only. */
  DEPLOYMENTS_FILE: z.string().min(1),
  /** Overrides prices, limits, availability, the default voice and retirement dates of voices. */
  CATALOG_FILE: z.string().min(1).optional(),
  CONTACT_EMAIL: z.email(),
  /** Published in /.well-known/security.txt (RFC 9116), which does not exist without it. */
  SECURITY_CONTACT: securityContact.optional(),
  /** Comma-separated addresses or networks of the proxies whose X-Forwarded-For is trusted; none by default. */
  TRUSTED_PROXIES: trustedProxies.optional(),
  /**
   * Per client (an IPv4 address or an IPv6 /64; a /48 has ten times as much), across all API processes when the queue
   * is in Redis; bursts of up to a minute's worth. Requests of known payers are counted separately, up to ten times this.
   */
  REQUESTS_PER_MINUTE: z.coerce.number().int().positive().default(6000),
  /**
   * Payments of all other payers that are verified on chain, per client: each costs RPC calls, and wallets are free.
   */
  NEW_PAYER_VERIFICATIONS_PER_MINUTE: z.coerce.number().int().positive().default(300),
  /** Minutes of audio that are decoded for all other callers, per client, with bursts of as much. */
  UNPAID_AUDIO_MINUTES_PER_MINUTE: z.coerce.number().int().positive().default(240),
  FFMPEG_PATH: z.string().optional(),
  PATH: z.string().default(''),
  DECODERS: z.coerce.number().int().min(1).default(2),
  DECODER_WAITING: z.coerce.number().int().min(0).default(32),
  /** Limit of request bodies in memory, an eighth of which is for bodies up to 64 KB; at least two of the largest. */
  MAXIMUM_BODY_MEGABYTES: z.coerce.number().int().min(80).default(512),
  /** Limit of callers that wait for the results of their paid requests; those of a payer or a client get a share. */
  MAXIMUM_HELD_CONNECTIONS: z.coerce.number().int().min(1).default(5000),
  /** New work of a kind is rejected while accepted work of that kind has waited longer than this. */
  MAXIMUM_QUEUE_AGE_SECONDS: z.coerce.number().positive().default(60),
  ...telemetrySettings,
  LOG_LEVEL: z.enum(['debug', 'info', 'warn', 'error', 'silent']).default('info'),
})

const configSchema = settingsSchema.check(
  checkObjectStore,
  checkCallTimes,
  checkSettlementContract,
  ({ value, issues }) => {
    if (value.MEDIA_DELIVERY === 'proxy' || value.S3_BUCKET !== undefined) return
    const message = 'MEDIA_DELIVERY=redirect requires S3_BUCKET: only the API can read OBJECT_STORE_DIRECTORY'
    issues.push({ code: 'custom', path: ['MEDIA_DELIVERY'], message, input: undefined })
  },
  ({ value: { FACILITATOR_ADDRESSES: addresses, FACILITATOR_URL: url }, issues }) => {
    if ((addresses === undefined) !== (url === undefined)) return
    const message =
      'set exactly one of FACILITATOR_ADDRESSES (the addresses of the workers’ settlement keys) and FACILITATOR_URL'
    issues.push({ code: 'custom', path: ['FACILITATOR_ADDRESSES'], message, input: undefined })
  },
  ({ value: { MINIMUM_CHARGE_FOLLOWS_GAS: followsGas, FACILITATOR_URL: url }, issues }) => {
    if (!followsGas || url === undefined) return
    const message = 'a remote facilitator pays the gas: leave it out beside FACILITATOR_URL'
    issues.push({ code: 'custom', path: ['MINIMUM_CHARGE_FOLLOWS_GAS'], message, input: undefined })
  },
)

export type ApiConfig = Readonly<z.infer<typeof configSchema>>

/**
 * Reads the settings from the environment. Throws a failure that names every invalid variable. No key here can move
 * money or call a provider.
 */
export function readConfig(environment: NodeJS.ProcessEnv = process.env): ApiConfig {
  return Object.freeze(parseSettings(configSchema, Object.keys(settingsSchema.shape), environment))
}
