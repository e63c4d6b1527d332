import { parseArgs } from 'node:util'
import { isAddress } from 'viem'
import { z } from 'zod'
import { KEY_KINDS, type KeyKind } from '#shared/operators/key-rotation.ts'
import { accountAddress } from '#shared/payment/account-settings.ts'
import { chainSettings } from '#shared/payment/chain-settings.ts'
import { checkedSettings, readAuthor, UsageError } from '../command-line.ts'

export type KeysCommand =
  | { readonly command: 'status' }
  | {
      readonly command: 'rotate'
      readonly kind: KeyKind
      /** The new address; only of `pay-to`. */
      readonly address: `0x${string}` | null
      /** The settlement key to replace, where there are several. */
      readonly replaces: string | null
      readonly reason: string
      /** Starts although the last rotation of this kind is not finished. */
      readonly isForced: boolean
    }

export type KeysOptions = NonNullable<ReturnType<typeof readOptions>>

export const HELP = `Usage: npm run keys -- <command> [options]

Rotates keys without a failed call, and says what the running processes use.

  status               what every process uses, what is wrong, and the next step of each rotation
  rotate settlement    replace a settlement key (SETTLEMENT_PRIVATE_KEYS, FACILITATOR_ADDRESSES)
  rotate pay-to ADDRESS  replace the recipient of payments by an address of yours (PAY_TO)
  rotate challenge     replace CHALLENGE_SECRET
  rotate receipts      replace the receipt secret (RECEIPT_SECRETS, RECEIPT_SECRET_ID)
  rotate statements    replace the key of offers and receipts (RECEIPT_SIGNING_KEY)

rotate prints the new value once, with the steps; nothing keeps it but you. Each step is a change of settings and a
rolling restart. After each one run status, which checks it against processes, ledger and chain.

  --reason <text>      why; required by rotate
  --replaces <address> the settlement key to replace, when there are several
  --force              rotate although the last rotation of this kind is not finished
  --as <name>          who; by default the user of this machine
  --json               print one JSON object
  --help               show this text

Reads DATABASE_URL, and RPC_URL for the gas of settlement keys and the list of the settlement contract.
CHALLENGE_LIFETIME_SECONDS as for the API (default: 600).

Exit code: 0 when no step is left and nothing is wrong, 1 when something is left to do, or was refused, 2 for wrong
arguments or when the database or the chain cannot be read.`

const [FLAG, TEXT] = [{ type: 'boolean' } as const, { type: 'string' } as const]
const OPTIONS = { as: TEXT, json: FLAG, help: FLAG, reason: TEXT, replaces: TEXT, force: FLAG }

function readArguments(commandLine: readonly string[]) {
  try {
    return parseArgs({ args: [...commandLine], options: OPTIONS, allowPositionals: true })
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error))
  }
}

/** Money that is sent to a mistyped address is gone: mixed case carries a checksum, which viem checks. */
const accountAddressWithChecksum = z
  .string({ error: 'is missing' })
  .refine((text) => !/^0x[0-9a-fA-F]{40}$/.test(text) || isAddress(text), { error: 'has a wrong checksum' })
  .pipe(accountAddress)

const environmentSchema = z.object({
  DATABASE_URL: z.url({ error: 'is not set, or not a URL' }),
  RPC_URL: chainSettings.RPC_URL.optional(),
  RPC_TIMEOUT_MS: chainSettings.RPC_TIMEOUT_MS,
  CHALLENGE_LIFETIME_SECONDS: z.coerce.number().int().positive().default(600),
})

/** Reads arguments and environment. Returns `null` when only help is asked for; throws `UsageError`. */
export function readOptions(commandLine: readonly string[], environment: NodeJS.ProcessEnv) {
  const { values, positionals } = readArguments(commandLine)
  if (values.help) return null
  const request = readRequest(positionals, values)
  const author = readAuthor(values.as)
  const settings = checkedSettings(environmentSchema, environment)
  return {
    request,
    author,
    asJson: values.json ?? false,
    databaseUrl: settings.DATABASE_URL,
    /** `null`: do not read gas. */
    rpcUrls: settings.RPC_URL ?? null,
    rpcTimeoutMs: settings.RPC_TIMEOUT_MS,
    challengeLifetimeSeconds: settings.CHALLENGE_LIFETIME_SECONDS,
  }
}

type Values = ReturnType<typeof readArguments>['values']

function readRequest([command, name, given, ...others]: readonly string[], values: Values): KeysCommand {
  if (others[0] !== undefined) throw new UsageError(`"${others[0]}" is one argument too many`)
  if (command === 'status') {
    if (name !== undefined) throw new UsageError('status takes no argument')
    return { command }
  }
  if (command !== 'rotate') throw new UsageError('the command must be status or rotate')
  const kind = KEY_KINDS.find((known) => known === name)
  if (!kind) throw new UsageError(`rotate needs one of ${KEY_KINDS.join(', ')}`)
  const reason = values.reason?.trim() ?? ''
  if (reason === '' || reason.length > 1000) throw new UsageError('rotate needs --reason, in at most 1000 characters')
  if (values.replaces !== undefined && kind !== 'settlement')
    throw new UsageError('--replaces is only for settlement keys')
  return {
    command,
    kind,
    address: readAddress(kind, given),
    replaces: values.replaces?.toLowerCase() ?? null,
    reason,
    isForced: values.force ?? false,
  }
}

function readAddress(kind: KeyKind, given: string | undefined): `0x${string}` | null {
  if (kind !== 'pay-to') {
    if (given !== undefined) throw new UsageError(`rotate ${kind} generates the new value; "${given}" is too much`)
    return null
  }
  const address = accountAddressWithChecksum.safeParse(given)
  if (!address.success) throw new UsageError(`rotate pay-to needs an ADDRESS: it ${address.error.issues[0]?.message}`)
  return address.data
}
