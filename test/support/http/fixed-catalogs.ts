import type { Catalog } from '#shared/catalog/catalog.ts'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import type { Catalogs } from '../../../api/request/live-catalog.ts'

/** Returns the catalogs of a process for which nothing else is ever published. */
export function fixedCatalogs(catalog: Catalog = publishedCatalog): Catalogs {
  return {
    offered: () => catalog,
    published: () => publishedCatalog,
    find: async (version) => (version === catalog.version ? catalog : null),
    record: async () => undefined,
  }
}
