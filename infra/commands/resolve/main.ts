import { z } from 'zod'
import { openChain } from '#shared/chain/network/open-chain.ts'
import { createRefundReader } from '#shared/chain/reading/refund-reader.ts'
import { RESOLUTION_OUTCOMES, RESOLVABLE_ITEMS } from '#shared/jobs/resolution.ts'
import type { ListPosition } from '#shared/ledger/read-list.ts'
import {
  createResolutionStore,
  type ItemFilter,
  type ResolutionStore,
} from '#shared/ledger/resolutions/resolution-store.ts'
import { withConnection } from '#shared/ledger/with-connection.ts'
import { atomicAmount, dollarsFromAtomic } from '#shared/money/atomic-amount.ts'
import type { Author } from '#shared/operators/author.ts'
import { allowedOutcomes, type ItemRecord, parseItemName } from '#shared/operators/item.ts'
import { conflictSentence, resolveItem } from '#shared/operators/resolve-item.ts'
import { refundSettings } from '#shared/payment/account-settings.ts'
import { chainSettings } from '#shared/payment/chain-settings.ts'
import type { RefundReader } from '#shared/payment/refund.ts'
import {
  addCommon,
  checkedArgument,
  checkedFlags,
  checkedSettings,
  createMain,
  oneLine,
  REASON,
  Refusal,
  readCommon,
  readSandbox,
  reason,
  type Settings,
  toJson,
  UsageError,
} from '../command-line.ts'

const itemArgument = z
  .string({ error: 'is missing: name an id of the list' })
  .transform((text) => parseItemName(text))
  .refine((name) => name !== null, { error: 'must be an id of the list, such as review:UUID' })
const outcomeArgument = z.enum(RESOLUTION_OUTCOMES, { error: `must be one of ${RESOLUTION_OUTCOMES.join(', ')}` })

const filterOptions = z.object({
  kind: z.enum(RESOLVABLE_ITEMS, { error: `must be one of ${RESOLVABLE_ITEMS.join(', ')}` }).optional(),
  payer: z
    .string()
    .regex(/^0x[0-9a-f]{40}$/i, { error: 'must be 0x and 40 hexadecimal digits' })
    .toLowerCase()
    .optional(),
})
const decisionOptions = z.object({ reason, transaction: z.string().optional() })
const commonOptions = z.object({ sandbox: z.boolean().default(false) })
const chainSchema = z.object({ ...chainSettings, ...refundSettings })

const PAGE_SIZE = 200

const OUTCOMES = `
OUTCOME is one of:
  refunded      a final transfer on chain returned exactly the amount to the payer (--transaction)
  paid_outside  the amount was settled by other means
  written_off   the amount is given up; a debt still has to be paid before its payer buys again
  forgiven      a debt need not be paid
  re_served     the stored result is returned to its caller without a charge`

/** What a command did, as text and as JSON. */
interface Outcome {
  readonly text: string
  readonly json: object
}

/** Runs the command and returns its exit code. */
export const main = createMain('resolve', (command, run) => {
  const does = (
    action: (store: ResolutionStore, given: Given, ...positionals: readonly string[]) => Promise<Outcome>,
  ) =>
    run(async (flags, settings, ...positionals) => {
      const { sandbox } = checkedFlags(commonOptions, flags)
      const all = sandbox ? { ...settings, ...(await readSandbox(settings)) } : settings
      const { databaseUrl: connectionString, author, asJson } = readCommon(flags, all)
      const connection = { connectionString, applicationName: 'farebox resolve' }
      const { text, json } = await withConnection(connection, (pool) =>
        action(createResolutionStore(pool), { flags, settings: all, author }, ...positionals),
      )
      console.log(asJson ? toJson(json) : text)
    })
  addCommon(command)
    .description(
      `Lists what waits for a person, and ends it. A resolution is permanent: it stays in the ledger and in npm run ledger.`,
    )
    .option('--sandbox', 'use database and chain of the running sandbox, from SANDBOX_FILE or .farebox/sandbox.json')
    .addHelpText(
      'after',
      `${OUTCOMES}

Reads DATABASE_URL, and for refunds RPC_URL and REFUND_SENDERS. Exit code: 0 when done, 1 when the resolution is
refused or there is no such item, 2 for wrong arguments or a database or chain that cannot be reached.`,
    )
  command
    .command('list')
    .description('open items, oldest first, with the outcomes that each may have')
    .option('--kind <kind>', `one of ${RESOLVABLE_ITEMS.join(', ')}`)
    .option('--payer <address>', 'of one payer')
    .action(does(list))
  command.command('show <item>').description('one item, open or ended').action(does(show))
  command
    .command('end [item] [outcome]', { isDefault: true })
    .description('end an item, such as review:0b7e2c…; "end" may be left out, and without ITEM all are listed')
    .addHelpText('after', OUTCOMES)
    .option(...REASON)
    .option('--transaction <hash>', 'the transaction of the refund')
    .action(does(end))
  return command
})

interface Given {
  readonly flags: unknown
  readonly settings: Settings
  readonly author: Author
}

async function list(store: ResolutionStore, given?: Given): Promise<Outcome> {
  const items = await readAll(store, checkedFlags(filterOptions, given?.flags ?? {}))
  const text = items.length === 0 ? 'Nothing waits for a person.' : items.map(renderItem).join('\n\n')
  return { text, json: { items: items.map(itemJson) } }
}

async function show(store: ResolutionStore, _: Given, named?: string): Promise<Outcome> {
  const item = await store.findItem(checkedArgument(itemArgument, 'ITEM', named))
  if (!item) throw new Refusal('There is no such item.')
  return { text: renderItem(item), json: itemJson(item) }
}

async function end(
  store: ResolutionStore,
  { flags, settings, author }: Given,
  named?: string,
  given?: string,
): Promise<Outcome> {
  if (named === undefined) return await list(store)
  const name = checkedArgument(itemArgument, 'ITEM', named)
  const outcome = checkedArgument(outcomeArgument, 'OUTCOME', given)
  const { reason, transaction } = checkedFlags(decisionOptions, flags)
  if (outcome === 'refunded' && transaction === undefined)
    throw new UsageError('--transaction is missing: name the transaction of the refund')
  const refunds = outcome === 'refunded' ? await openRefunds(settings) : NO_REFUNDS
  const decision = { outcome, reason, refundTransaction: transaction ?? '' }
  const resolved = await resolveItem({ store, refunds }, name, decision, author)
  if (resolved.outcome === 'not_found') throw new Refusal('There is no such item.')
  if (resolved.outcome === 'refused') throw new Refusal(resolved.sentence)
  return { text: `${resolved.item.id}: ${conflictSentence(resolved.resolution)}`, json: resolved.resolution }
}

async function openRefunds(settings: Settings): Promise<RefundReader> {
  const chain = checkedSettings(chainSchema, settings)
  return createRefundReader((await openChain(chain)).chain, chain.REFUND_SENDERS ?? [])
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
  for (let after: ListPosition | null = null; ;) {
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
