import type { AcceptanceStore } from '#shared/adapters/postgres/acceptance/acceptance-store.ts'
import type { Catalog } from '#shared/catalog/catalog.ts'
import type { AnyOperation } from '#shared/operations/registry.ts'
import type { Quote } from '#shared/pricing/quote.ts'
import type { Catalogs } from '../../request/live-catalog.ts'

type KnownQuote = Pick<Quote<unknown>, 'catalogVersion'>

interface Dependencies {
  readonly catalogs: Pick<Catalogs, 'offered' | 'find'>
  readonly store: Pick<AcceptanceStore, 'findBinding'>
}

/**
 * Returns the catalog of the quote that the key is bound to, if another one is offered by now: its defaults and limits
 * decide what the request is, so that the signed retry is the request that was priced. Costs a statement only where the
 * request depends on the catalog: a recording on its limits, once it is paid for, and a request with defaults always.
 * `knownQuote`: the key's quote, where it is in memory.
 */
export async function findQuotedCatalog(
  { catalogs, store }: Dependencies,
  { upload, catalogDefaults }: AnyOperation,
  idempotencyKey: string,
  { isPaid, knownQuote }: { readonly isPaid: boolean; readonly knownQuote: KnownQuote | null },
): Promise<Catalog | null> {
  if (catalogDefaults === undefined && !(upload && isPaid)) return null
  const quote = knownQuote ?? (await store.findBinding(idempotencyKey))?.quote
  if (!quote || quote.catalogVersion === catalogs.offered().version) return null
  return await catalogs.find(quote.catalogVersion)
}
