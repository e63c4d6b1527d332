import type { Catalog } from '#shared/catalog/catalog.ts'

/** The catalog that is in force now: operators may publish another one while the process runs. */
export type CurrentCatalog = () => Catalog

/** The catalogs that this process quotes with and has quoted with. */
export interface Catalogs {
  /** What is offered now. */
  readonly offered: CurrentCatalog
  /** Everything that is published, available or not: the interface description does not change with availability. */
  readonly published: CurrentCatalog
  /** Returns the catalog that an earlier quote was made with; `null` for one that was never recorded. */
  find(version: string): Promise<Catalog | null>
  /** Records the catalog of a quote that is about to be made, so that its version can be read for good. */
  record(version: string): Promise<void>
}

/** Returns a function that derives a value from the current catalog, once for each catalog. */
export function derived<Value>(current: CurrentCatalog, derive: (catalog: Catalog) => Value): () => Value {
  let catalog = current()
  let value = derive(catalog)
  return () => {
    const now = current()
    if (now === catalog) return value
    value = derive(now)
    catalog = now
    return value
  }
}
