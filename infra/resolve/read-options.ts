import { z } from 'zod'
import { RESOLUTION_OUTCOMES, RESOLVABLE_ITEMS, type ResolvableItem } from '#shared/jobs/resolution.ts'
import type { Author } from '#shared/operators/author.ts'
import { type ItemName, parseItemName } from '#shared/operators/item.ts'
import type { Decision } from '#shared/operators/resolve-item.ts'
import { refundSettings } from '#shared/payment/account-settings.ts'
import { chainSettings } from '#shared/payment/chain-settings.ts'
import { checkedSettings, FLAG, readArguments, readAuthor, readSandbox, TEXT, UsageError } from '../command-line.ts'

export type ResolveCommand =
  | { readonly command: 'list'; readonly kind: ResolvableItem | undefined; readonly payer: string | undefined }
  | { readonly command: 'show'; readonly item: ItemName }
  | { readonly command: 'resolve'; readonly item: ItemName; readonly decision: Decision; readonly author: Author }

export interface ResolveOptions {
  readonly request: ResolveCommand
  readonly asJson: boolean
  readonly databaseUrl: string
  /** Only of a refund, which is proven on chain. */
  readonly chain: z.infer<typeof chainSchema> | null
}

export const HELP = `Usage: npm run resolve -- [list] [--kind KIND] [--payer ADDRESS]
       npm run resolve -- show ITEM
       npm run resolve -- ITEM OUTCOME --reason TEXT [--transaction HASH]

Lists what waits for a person, and ends it. A resolution is permanent: it stays in the ledger and in npm run ledger.

  list                 open items, oldest first, with the outcomes that each may have
  show ITEM            one item, open or ended
  ITEM OUTCOME         end it; ITEM is an id of the list, such as review:0b7e2c…

KIND is one of ${RESOLVABLE_ITEMS.join(', ')}.
OUTCOME is one of:
  refunded             a final transfer on chain returned exactly the amount to the payer (--transaction)
  paid_outside         the amount was settled by other means
  written_off          the amount is given up; a debt still has to be paid before its payer buys again
  forgiven             a debt need not be paid
  re_served            the stored result is returned to its caller without a charge

  --reason TEXT        why; kept with the resolution
  --transaction HASH   the transaction of the refund
  --as NAME            who decides; by default the user of this machine
  --json               print one JSON object; amounts are atomic USDC in decimal strings
  --sandbox            use database and chain of the running sandbox, from SANDBOX_FILE or .farebox/sandbox.json
  --help               show this text

Reads DATABASE_URL, and for refunds RPC_URL and REFUND_SENDERS. Exit code: 0 when done, 1 when the resolution is refused or there is no such
item, 2 for wrong arguments or a database or chain that cannot be reached.`

const OPTIONS = {
  kind: TEXT,
  payer: TEXT,
  reason: TEXT,
  transaction: TEXT,
  as: TEXT,
  json: FLAG,
  sandbox: FLAG,
  help: FLAG,
}

type Values = ReturnType<typeof readArguments<typeof OPTIONS>>['values']

const databaseSchema = z.object({ DATABASE_URL: z.url({ error: 'is not set, or not a URL' }) })
const chainSchema = z.object({ ...chainSettings, ...refundSettings })

/** Reads the command line. Returns `null` when only help is asked for; throws `UsageError`. */
export async function readOptions(
  commandLine: readonly string[],
  environment: NodeJS.ProcessEnv,
): Promise<ResolveOptions | null> {
  const { values, positionals } = readArguments(commandLine, OPTIONS)
  if (values.help) return null
  const request = readRequest(positionals, values)
  const settings = values.sandbox ? { ...environment, ...(await readSandbox(environment)) } : environment
  const isRefund = request.command === 'resolve' && request.decision.outcome === 'refunded'
  return {
    request,
    asJson: values.json ?? false,
    databaseUrl: checkedSettings(databaseSchema, settings).DATABASE_URL,
    chain: isRefund ? checkedSettings(chainSchema, settings) : null,
  }
}

function readRequest([first = 'list', second, ...others]: readonly string[], values: Values): ResolveCommand {
  if (others[0] !== undefined) throw new UsageError(`"${others[0]}" is one argument too many`)
  if (first === 'list') {
    if (second !== undefined) throw new UsageError(`"${second}" is one argument too many`)
    refuse(values, ['reason', 'transaction', 'as'], 'list')
    return { command: 'list', kind: readKind(values.kind), payer: readPayer(values.payer) }
  }
  refuse(values, ['kind', 'payer'], first)
  if (first === 'show') {
    refuse(values, ['reason', 'transaction', 'as'], 'show')
    return { command: 'show', item: readItem(second) }
  }
  const item = readItem(first)
  const outcome = RESOLUTION_OUTCOMES.find((known) => known === second)
  if (!outcome) throw new UsageError(`OUTCOME must be one of ${RESOLUTION_OUTCOMES.join(', ')}`)
  if (values.reason === undefined) throw new UsageError('--reason is missing')
  if (outcome === 'refunded' && values.transaction === undefined)
    throw new UsageError('--transaction is missing: name the transaction of the refund')
  return {
    command: 'resolve',
    item,
    decision: { outcome, reason: values.reason, refundTransaction: values.transaction ?? '' },
    author: { operator: readAuthor(values.as), source: 'command' },
  }
}

function refuse(values: Values, names: readonly (keyof Values)[], command: string): void {
  const surplus = names.find((name) => values[name] !== undefined)
  if (surplus !== undefined) throw new UsageError(`--${surplus} does not belong to ${command}`)
}

function readItem(given: string | undefined): ItemName {
  const name = given === undefined ? null : parseItemName(given)
  if (!name)
    throw new UsageError(
      `ITEM must be an id of the list, such as review:UUID${given === undefined ? '' : `; got "${given}"`}`,
    )
  return name
}

function readKind(given: string | undefined): ResolvableItem | undefined {
  const kind = RESOLVABLE_ITEMS.find((known) => known === given)
  if (given !== undefined && !kind) throw new UsageError(`--kind must be one of ${RESOLVABLE_ITEMS.join(', ')}`)
  return kind
}

function readPayer(given: string | undefined): string | undefined {
  if (given !== undefined && !/^0x[0-9a-f]{40}$/i.test(given))
    throw new UsageError('--payer must be 0x and 40 hexadecimal digits')
  return given?.toLowerCase()
}
