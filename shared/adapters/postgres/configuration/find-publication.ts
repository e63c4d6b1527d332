import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { PublicationKind } from '#shared/operators/configuration.ts'
import type { Publication, PublicationSummary } from '#shared/operators/configuration-store.ts'
import type { List, ListPage } from '#shared/operators/money-store.ts'
import type { Sql } from '../pool.ts'
import { microsecondsOf, type PositionRow } from '../position.ts'
import { readList } from '../read-list.ts'

interface SummaryRow {
  readonly number: string
  readonly kind: PublicationKind
  readonly published_at: Date
  readonly operator: string
  readonly reason: string
  readonly file_sha256: string | null
}

type Row = SummaryRow & { readonly content: JsonValue }

/** After every number. */
const END = { id: '9223372036854775807' }

/** Returns the publication of a kind that is in force. */
export async function findNewest(sql: Sql, kind: PublicationKind): Promise<Publication | null> {
  const { rows } = await sql.query<Row>({
    name: 'find_newest_publication',
    text: `SELECT number, kind, published_at, operator, reason, file_sha256, content
           FROM publications WHERE kind = $1 ORDER BY number DESC LIMIT 1`,
    values: [kind],
  })
  return rows[0] ? publicationOf(rows[0]) : null
}

export async function findPublication(sql: Sql, number: bigint): Promise<Publication | null> {
  const { rows } = await sql.query<Row>({
    name: 'find_publication',
    text: `SELECT number, kind, published_at, operator, reason, file_sha256, content
           FROM publications WHERE number = $1`,
    values: [number],
  })
  return rows[0] ? publicationOf(rows[0]) : null
}

/** Returns the digest of the file of a kind that was imported last. */
export async function findNewestImport(sql: Sql, kind: PublicationKind): Promise<string | null> {
  const { rows } = await sql.query<{ file_sha256: string }>({
    name: 'find_newest_import',
    text: `SELECT file_sha256 FROM publications
           WHERE kind = $1 AND file_sha256 IS NOT NULL ORDER BY number DESC LIMIT 1`,
    values: [kind],
  })
  return rows[0]?.file_sha256 ?? null
}

/** Returns publications of a kind, newest first. */
export async function listPublications(
  sql: Sql,
  kind: PublicationKind,
  page: ListPage,
): Promise<List<PublicationSummary>> {
  return await readList(
    page,
    async ({ limit, after, before }) => {
      const [place, beyond, order] = before ? [before, '>', ''] : [after ?? END, '<', ' DESC']
      const { rows } = await sql.query<SummaryRow & PositionRow>({
        name: before ? 'list_publications_back' : 'list_publications',
        text: `SELECT number, number::text AS id, kind, published_at, operator, reason, file_sha256,
             ${microsecondsOf('published_at')} AS microseconds
           FROM publications WHERE kind = $1 AND number ${beyond} $2::bigint ORDER BY number${order} LIMIT $3`,
        values: [kind, place.id, limit + 1],
      })
      return rows
    },
    summaryOf,
  )
}

function summaryOf(row: SummaryRow): PublicationSummary {
  const { kind, published_at: publishedAt, operator, reason, file_sha256: fileSha256 } = row
  return { number: BigInt(row.number), kind, publishedAt, operator, reason, fileSha256 }
}

function publicationOf(row: Row): Publication {
  return { ...summaryOf(row), content: row.content }
}
