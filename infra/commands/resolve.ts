import { openChain } from '#shared/adapters/chain/network/open-chain.ts'
import { createRefundReader } from '#shared/adapters/chain/reading/refund-reader.ts'
import type { ListPosition } from '#shared/adapters/postgres/read-list.ts'
import {
  createResolutionStore,
  type ItemFilter,
  type ResolutionStore,
} from '#shared/adapters/postgres/resolutions/resolution-store.ts'
import { withConnection } from '#shared/adapters/postgres/with-connection.ts'
import type { ItemRecord } from '#shared/operators/item.ts'
import { conflictSentence, resolveItem } from '#shared/operators/resolve-item.ts'
import type { RefundReader } from '#shared/payment/refund.ts'
import { Refusal, runCommand } from '../command-line.ts'
import { HELP, type ResolveOptions, readOptions } from '../resolve/read-options.ts'
import { itemJson, renderItem } from '../resolve/render-item.ts'

const PAGE_SIZE = 200

/** What a command did, as text and as JSON. */
interface Outcome {
  readonly text: string
  readonly json: object
}

/** Runs the command and returns its exit code. */
export async function main(commandLine: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  return await runCommand(
    HELP,
    () => readOptions(commandLine, environment),
    async (options) => {
      const outcome = await withStore(options, (store) => run(store, options))
      console.log(options.asJson ? asJson(outcome.json) : outcome.text)
    },
  )
}

async function withStore(
  { databaseUrl }: ResolveOptions,
  work: (store: ResolutionStore) => Promise<Outcome>,
): Promise<Outcome> {
  return await withConnection({ connectionString: databaseUrl, applicationName: 'farebox resolve' }, (pool) =>
    work(createResolutionStore(pool)),
  )
}

async function run(store: ResolutionStore, { request, chain }: ResolveOptions): Promise<Outcome> {
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

function asJson(value: object): string {
  return JSON.stringify(value, (_, member: unknown) => (typeof member === 'bigint' ? member.toString() : member), 2)
}

if (import.meta.main) process.exitCode = await main(process.argv.slice(2), process.env)
