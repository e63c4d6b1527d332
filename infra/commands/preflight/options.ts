import type { Command } from 'commander'
import { z } from 'zod'
import { checkedFlags } from '../command-line.ts'

/** Adds description and options to the command. */
export function addOptions(command: Command): Command {
  return command
    .description(
      `Checks what farebox needs before its first real call: settings, database, queue, object store, the nodes and
contracts of the payment network, settlement keys and their gas, clocks, the vendors' models and voices, and the public
address: an unpaid call and the largest body, as a caller sends them through whatever stands in front of the API.
It reads the settings of API and workers from the environment. It changes nothing, but opens the stores as the processes
do: it creates a missing OBJECT_STORE_DIRECTORY, and writes and deletes a small object under each prefix of S3_BUCKET.`,
    )
    .option(
      '--env-file <file>',
      'read settings from this file, too; may be repeated; the environment takes precedence',
      collect,
    )
    .option(
      '--worker-env-file <file>',
      "read the workers' settings from this file, and not from --env-file; may be repeated. What must be the same for both is compared",
      collect,
    )
    .option('--only <api|worker>', 'check only what this kind of process needs (default: both)')
    .option(
      '--held-call',
      'have an unpaid call held for HOLD_SECONDS, to see whether all that is in front of the API waits',
    )
    .option(
      '--paid-calls',
      'make one paid call of each endpoint at PUBLIC_BASE_URL and verify its receipt. PREFLIGHT_PAYER_PRIVATE_KEY holds the key of a payer with USDC on Base',
    )
    .option('--spend-at-most <usd>', 'limit of all paid calls together, by their authorized maxima', '1')
    .option('--alert-url <url>', 'send a test alert to this Alertmanager; a person confirms that it arrived')
    .option(
      '--expect-code <address=hash>',
      'the code hash that a contract must have instead of the published one; may be repeated',
      collect,
    )
    .option('--json', 'print one JSON object')
    .addHelpText('after', '\nExit code: 0 when no check failed, 1 when one did, 2 for wrong arguments.')
}

const collect = (value: string, earlier: readonly string[] = []) => [...earlier, value]

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

const optionsSchema = z.object({
  envFile: z.array(z.string()).default([]),
  workerEnvFile: z.array(z.string()).default([]),
  only: z.enum(['api', 'worker'], { error: 'must be api or worker' }).optional(),
  heldCall: z.boolean().default(false),
  paidCalls: z.boolean().default(false),
  spendAtMost: z.string().regex(/^\d{1,4}(\.\d{1,6})?$/, { error: 'must be an amount in USD such as 0.5' }),
  alertUrl: z
    .url({ protocol: /^https?$/, error: 'must be an http(s) URL' })
    .refine((url) => !url.includes('@'), { error: 'must not contain a password, which would be printed' })
    .optional(),
  expectCode: z
    .array(z.string().regex(/^0x[0-9a-fA-F]{40}=0x[0-9a-fA-F]{64}$/, { error: 'must be ADDRESS=HASH' }))
    .default([]),
  json: z.boolean().default(false),
})

/** Reads the options. Throws `UsageError`. */
export function readOptions(flags: unknown): PreflightOptions {
  const data = checkedFlags(optionsSchema, flags)
  return {
    envFiles: data.envFile,
    workerEnvFiles: data.workerEnvFile,
    roles: new Set(data.only === undefined ? ['api', 'worker'] : [data.only]),
    makesHeldCall: data.heldCall,
    makesPaidCalls: data.paidCalls,
    spendAtMostUsd: data.spendAtMost,
    alertUrl: data.alertUrl ?? null,
    expectedCode: new Map(
      data.expectCode.map((pair) => {
        const [address = '', hash = ''] = pair.toLowerCase().split('=')
        return [address, hash]
      }),
    ),
    asJson: data.json,
  }
}
