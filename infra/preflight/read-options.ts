import { z } from 'zod'
import { checkedFlags, FLAG, readFlags, TEXT } from '../command-line.ts'

export const HELP = `Usage: npm run preflight -- [--env-file FILE]… [--held-call] [--paid-calls] [--alert-url URL] [--json]

Checks what farebox needs before its first real call: settings, database, queue, object store, the nodes and contracts
of the payment network, settlement keys and their gas, clocks, the vendors' models and voices, and the public address:
an unpaid call and the largest body, as a caller sends them through whatever stands in front of the API.
It reads the settings of API and workers from the environment. It changes nothing, but opens the stores as the processes
do: it creates a missing OBJECT_STORE_DIRECTORY, and writes and deletes a small object under each prefix of S3_BUCKET.

  --env-file FILE          read settings from this file, too; may be repeated; the environment takes precedence
  --worker-env-file FILE   read the workers' settings from this file, and not from --env-file; may be repeated. What must be
                           the same for both is compared
  --only api|worker        check only what this kind of process needs (default: both)
  --held-call              have an unpaid call held for HOLD_SECONDS, to see whether all that is in front of the API waits
  --paid-calls             make one paid call of each endpoint at PUBLIC_BASE_URL and verify its receipt.
                           PREFLIGHT_PAYER_PRIVATE_KEY holds the key of a payer with USDC on Base
  --spend-at-most USD      limit of all paid calls together, by their authorized maxima (default: 1)
  --alert-url URL          send a test alert to this Alertmanager; a person confirms that it arrived
  --expect-code ADDR=HASH  the code hash that a contract must have instead of the published one; may be repeated
  --json                   print one JSON object
  --help                   show this text

Exit code: 0 when no check failed, 1 when one did, 2 for wrong arguments.`

export interface PreflightOptions {
  readonly envFiles: readonly string[]
  /** The workers' own; empty where they share those of the API. */
  readonly workerEnvFiles: readonly string[]
  readonly roles: ReadonlySet<'api' | 'worker'>
  readonly makesHeldCall: boolean
  readonly makesPaidCalls: boolean
  readonly spendAtMostUsd: string
  readonly alertUrl: string | null
  /** Code hashes by lower-case address. */
  readonly expectedCode: ReadonlyMap<string, string>
  readonly asJson: boolean
}

const OPTIONS = {
  'env-file': { ...TEXT, multiple: true },
  'worker-env-file': { ...TEXT, multiple: true },
  only: TEXT,
  'held-call': FLAG,
  'paid-calls': FLAG,
  'spend-at-most': TEXT,
  'alert-url': TEXT,
  'expect-code': { ...TEXT, multiple: true },
  json: FLAG,
  help: FLAG,
} as const

const optionsSchema = z.object({
  'env-file': z.array(z.string()).default([]),
  'worker-env-file': z.array(z.string()).default([]),
  only: z.enum(['api', 'worker'], { error: 'must be api or worker' }).optional(),
  'held-call': z.boolean().default(false),
  'paid-calls': z.boolean().default(false),
  'spend-at-most': z
    .string()
    .regex(/^\d{1,4}(\.\d{1,6})?$/, { error: 'must be an amount in USD such as 0.5' })
    .default('1'),
  'alert-url': z
    .url({ protocol: /^https?$/, error: 'must be an http(s) URL' })
    .refine((url) => !url.includes('@'), { error: 'must not contain a password, which would be printed' })
    .optional(),
  'expect-code': z
    .array(z.string().regex(/^0x[0-9a-fA-F]{40}=0x[0-9a-fA-F]{64}$/, { error: 'must be ADDRESS=HASH' }))
    .default([]),
  json: z.boolean().default(false),
})

/** Returns `null` for `--help`. Throws `UsageError`. */
export function readOptions(commandLine: readonly string[]): PreflightOptions | null {
  const flags = readFlags(commandLine, OPTIONS)
  if (flags.help) return null
  const data = checkedFlags(optionsSchema, flags)
  return {
    envFiles: data['env-file'],
    workerEnvFiles: data['worker-env-file'],
    roles: new Set(data.only === undefined ? ['api', 'worker'] : [data.only]),
    makesHeldCall: data['held-call'],
    makesPaidCalls: data['paid-calls'],
    spendAtMostUsd: data['spend-at-most'],
    alertUrl: data['alert-url'] ?? null,
    expectedCode: new Map(
      data['expect-code'].map((pair) => {
        const [address = '', hash = ''] = pair.toLowerCase().split('=')
        return [address, hash]
      }),
    ),
    asJson: data.json,
  }
}
