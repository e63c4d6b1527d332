import type { Catalog } from '#shared/catalog/catalog.ts'
import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { Sql } from '../pool.ts'

/** Records a catalog under its version, unless it is recorded. */
export async function recordCatalog(sql: Sql, { version, models, voices, common }: Catalog): Promise<void> {
  await sql.query({
    name: 'record_catalog',
    text: 'INSERT INTO catalogs (version, content) VALUES ($1, $2) ON CONFLICT (version) DO NOTHING',
    values: [version, JSON.stringify({ models, voices, common })],
  })
}

/** Returns the catalog of a version; `null` for one that no quote was made with. */
export async function findCatalog(sql: Sql, version: string): Promise<Catalog | null> {
  const { rows } = await sql.query<{ content: JsonValue }>({
    name: 'find_catalog',
    text: 'SELECT content FROM catalogs WHERE version = $1',
    values: [version],
  })
  // Only `recordCatalog` writes it, and rows are immutable.
  return rows[0] ? { version, ...(rows[0].content as unknown as Omit<Catalog, 'version'>) } : null
}
