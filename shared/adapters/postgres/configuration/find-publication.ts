import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { PublicationKind } from '#shared/operators/configuration.ts'
import type { Publication, PublicationSummary } from '#shared/operators/configuration-store.ts'
import type { Sql } from '../pool.ts'

interface SummaryRow {
  readonly number: string
  readonly kind: PublicationKind
  readonly published_at: Date
  readonly operator: string
  readonly reason: string
  readonly file_sha256: string | null
}

type Row = SummaryRow & { readonly content: JsonValue }

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
  { limit, before }: { readonly limit: number; readonly before?: bigint },
): Promise<readonly PublicationSummary[]> {
  const { rows } = await sql.query<SummaryRow>({
    name: 'list_publications',
    text: `SELECT number, kind, published_at, operator, reason, file_sha256 FROM publications
           WHERE kind = $1 AND ($2::bigint IS NULL OR number < $2) ORDER BY number DESC LIMIT $3`,
    values: [kind, before ?? null, limit],
  })
  return rows.map(summaryOf)
}

function summaryOf(row: SummaryRow): PublicationSummary {
  const { kind, published_at: publishedAt, operator, reason, file_sha256: fileSha256 } = row
  return { number: BigInt(row.number), kind, publishedAt, operator, reason, fileSha256 }
}

function publicationOf(row: Row): Publication {
  return { ...summaryOf(row), content: row.content }
}
