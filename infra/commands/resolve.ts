import { z } from 'zod'
import { openChain } from '#shared/chain/network/open-chain.ts'
import { createRefundReader } from '#shared/chain/reading/refund-reader.ts'
import { RESOLUTION_OUTCOMES, RESOLVABLE_ITEMS, type ResolvableItem } from '#shared/jobs/resolution.ts'
import type { ListPosition } from '#shared/ledger/read-list.ts'
import {
  createResolutionStore,
  type ItemFilter,
  type ResolutionStore,
} from '#shared/ledger/resolutions/resolution-store.ts'
import { withConnection } from '#shared/ledger/with-connection.ts'
import { atomicAmount, dollarsFromAtomic } from '#shared/money/atomic-amount.ts'
import type { Author } from '#shared/operators/author.ts'
import { allowedOutcomes, type ItemName, type ItemRecord, parseItemName } from '#shared/operators/item.ts'
import { conflictSentence, type Decision, resolveItem } from '#shared/operators/resolve-item.ts'
import { refundSettings } from '#shared/payment/account-settings.ts'
import { chainSettings } from '#shared/payment/chain-settings.ts'
import type { RefundReader } from '#shared/payment/refund.ts'
import {
  COMMON,
  checkedSettings,
  createCommand,
  FLAG,
  oneLine,
  Refusal,
  readArguments,
  readAuthor,
  readSandbox,
  TEXT,
  toJson,
  UsageError,
} from '../command-line.ts'

type Request =
  | { readonly command: 'list'; readonly kind: ResolvableItem | undefined; readonly payer: string | undefined }
  | { readonly command: 'show'; readonly item: ItemName }
  | { readonly command: 'resolve'; readonly item: ItemName; readonly decision: Decision; readonly author: Author }

type Options = NonNullable<Awaited<ReturnType<typeof readOptions>>>

const HELP = `Usage: npm run resolve -- [list] [--kind KIND] [--payer ADDRESS]
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

const OPTIONS = { ...COMMON, kind: TEXT, payer: TEXT, reason: TEXT, transaction: TEXT, sandbox: FLAG }

type Values = ReturnType<typeof readArguments<typeof OPTIONS>>['values']

const databaseSchema = z.object({ DATABASE_URL: z.url({ error: 'is not set, or not a URL' }) })
const chainSchema = z.object({ ...chainSettings, ...refundSettings })

/** Reads the command line. Returns `null` when only help is asked for; throws `UsageError`. */
async function readOptions(commandLine: readonly string[], environment: NodeJS.ProcessEnv) {
  const { values, positionals } = readArguments(commandLine, OPTIONS)
  if (values.help) return null
  const request = readRequest(positionals, values)
  const settings = values.sandbox ? { ...environment, ...(await readSandbox(environment)) } : environment
  const isRefund = request.command === 'resolve' && request.decision.outcome === 'refunded'
  return {
    request,
    asJson: values.json ?? false,
    databaseUrl: checkedSettings(databaseSchema, settings).DATABASE_URL,
    /** Only of a refund, which is proven on chain. */
    chain: isRefund ? checkedSettings(chainSchema, settings) : null,
  }
}

function readRequest([first = 'list', second, ...others]: readonly string[], values: Values): Request {
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
    author: readAuthor(values.as),
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

const PAGE_SIZE = 200

/** What a command did, as text and as JSON. */
interface Outcome {
  readonly text: string
  readonly json: object
}

/** Runs the command and returns its exit code. */
export const main = createCommand(HELP, readOptions, async (options) => {
  const connection = { connectionString: options.databaseUrl, applicationName: 'farebox resolve' }
  const outcome = await withConnection(connection, (pool) => run(createResolutionStore(pool), options))
  console.log(options.asJson ? toJson(outcome.json) : outcome.text)
})

async function run(store: ResolutionStore, { request, chain }: Options): Promise<Outcome> {
  switch (request.command) {
    case 'list': {
      const items = await readAll(store, { kind: request.kind, payer: request.payer })
      const text = items.length === 0 ? 'Nothing waits for a person.' : items.map(renderItem).join('\n\n')
      return { text, json: { items: items.map(itemJson) } }
    }
    case 'show': {
      const item = await store.findItem(request.item)
      if (!item) throw new Refusal('There is no such item.')
      return { text: renderItem(item), json: itemJson(item) }
    }
    case 'resolve': {
      const refunds = chain
        ? createRefundReader((await openChain(chain)).chain, chain.REFUND_SENDERS ?? [])
        : NO_REFUNDS
      const resolved = await resolveItem({ store, refunds }, request.item, request.decision, request.author)
      if (resolved.outcome === 'not_found') throw new Refusal('There is no such item.')
      if (resolved.outcome === 'refused') throw new Refusal(resolved.sentence)
      return { text: `${resolved.item.id}: ${conflictSentence(resolved.resolution)}`, json: resolved.resolution }
    }
  }
}

/** Of outcomes other than a refund, which read no chain. */
const NO_REFUNDS: RefundReader = {
  network: '',
  asset: '',
  senders: [],
  read: async () => ({ outcome: 'unreachable', cause: new Error('no chain is configured') }),
}

async function readAll(store: Pick<ResolutionStore, 'openItems'>, filter: ItemFilter): Promise<readonly ItemRecord[]> {
  const items: ItemRecord[] = []
  for (let after: ListPosition | null = null; ; ) {
    const page = await store.openItems(filter, { limit: PAGE_SIZE, after })
    items.push(...page.entries)
    if (page.next === null) return items
    after = page.next
  }
}

/** Renders an item as a few lines of text. */
function renderItem(item: ItemRecord): string {
  const allowed = allowedOutcomes(item)
  const facts: readonly (readonly [string, string | null])[] = [
    ['state', item.state],
    ['since', item.since.toISOString()],
    ['amount', `${dollarsFromAtomic(atomicAmount(item.amount))} USDC`],
    ['payer', item.payer],
    ['transaction', item.transaction],
    ['job', item.jobId],
    ['request', item.requestId],
    ['why', item.reason === null ? null : oneLine(item.reason)],
    ['result', item.kind === 'review' ? (item.isResultStored ? 'stored' : 'not stored') : null],
    ['ended', item.resolution && oneLine(conflictSentence(item.resolution))],
    ['may be', allowed.length === 0 ? null : allowed.join(', ')],
  ]
  return [
    item.id,
    ...facts.flatMap(([name, value]) => (value === null ? [] : [`  ${name.padEnd(11)}  ${value}`])),
  ].join('\n')
}

/** Returns an item with its allowed outcomes, for JSON. */
function itemJson(item: ItemRecord) {
  return { ...item, allowedOutcomes: allowedOutcomes(item) }
}

if (import.meta.main) process.exitCode = await main(process.argv.slice(2), process.env)
