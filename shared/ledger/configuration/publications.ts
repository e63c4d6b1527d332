import type { Author } from '#shared/operators/author.ts'
import { PUBLICATION_KINDS, type PublicationKind } from '#shared/operators/configuration.ts'
import type {
  ConfigurationFile,
  NewPublication,
  Publication,
  PublicationSummary,
  PublishOutcome,
} from '#shared/operators/publication.ts'
import { recordAction } from '../operators/record-action.ts'
import type { Pool, Sql } from '../pool.ts'
import { microsecondsOf, type PositionRow } from '../position.ts'
import { type List, type ListPage, readList } from '../read-list.ts'
import { readFirst, readOne, readRows } from '../read-rows.ts'
import { inTransaction } from '../transaction.ts'
import { deleteDraft, findDraft } from './drafts.ts'
import { lockConfiguration, raiseRevision } from './revision.ts'

const SUMMARY = `number, kind, published_at AS "publishedAt", operator, reason, file_sha256 AS "fileSha256"`

/** Returns the publication of a kind that is in force. */
export async function findNewest(sql: Sql, kind: PublicationKind): Promise<Publication | null> {
  const newest = await readFirst<Publication>(sql, {
    name: 'find_newest_publication',
    text: `SELECT ${SUMMARY}, content FROM publications WHERE kind = $1 ORDER BY number DESC LIMIT 1`,
    values: [kind],
  })
  return newest ?? null
}

export async function findPublication(sql: Sql, number: bigint): Promise<Publication | null> {
  const publication = await readFirst<Publication>(sql, {
    name: 'find_publication',
    text: `SELECT ${SUMMARY}, content FROM publications WHERE number = $1`,
    values: [number],
  })
  return publication ?? null
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

/** After every number. */
const END = { id: '9223372036854775807' }

/** Returns publications of a kind, newest first. */
export async function listPublications(
  sql: Sql,
  kind: PublicationKind,
  page: ListPage,
): Promise<List<PublicationSummary>> {
  return await readList(
    page,
    async ({ limit, after, before }) => {
      const [position, beyond, order] = before ? [before, '>', ''] : [after ?? END, '<', ' DESC']
      return await readRows<PublicationSummary & PositionRow>(sql, {
        name: before ? 'list_publications_back' : 'list_publications',
        text: `SELECT ${SUMMARY}, number::text AS id, ${microsecondsOf('published_at')} AS microseconds
           FROM publications WHERE kind = $1 AND number ${beyond} $2::bigint ORDER BY number${order} LIMIT $3`,
        values: [kind, position.id, limit + 1],
      })
    },
    ({ id: _id, microseconds: _microseconds, ...summary }: PublicationSummary & PositionRow) => summary,
  )
}

interface Inserted extends ConfigurationFile {
  readonly reason: string
  /** Of the content of a file. */
  readonly fileSha256: string | null
}

/** Inserts a publication and records who published it. Call it with the configuration locked. */
export async function insertPublication(
  sql: Sql,
  author: Author,
  { kind, content, reason, fileSha256 }: Inserted,
): Promise<bigint> {
  const { number } = await readOne<{ number: bigint }>(sql, {
    name: 'insert_publication',
    text: `INSERT INTO publications (kind, content, operator, reason, file_sha256)
           VALUES ($1, $2, $3, $4, $5) RETURNING number`,
    values: [kind, JSON.stringify(content), author.operator, reason, fileSha256],
  })
  await recordAction(sql, author, {
    action: fileSha256 === null ? 'configuration.publish' : 'configuration.import',
    subject: kind,
    reason,
    details: { publication: number.toString() },
  })
  return number
}

/** Publishes a content, unless the newest publication or the draft is not the one that its author has seen. */
export async function publish(
  pool: Pool,
  author: Author,
  { kind, content, reason, basedOn, alongside, draft }: NewPublication,
): Promise<PublishOutcome> {
  return await inTransaction(pool, async (sql) => {
    await lockConfiguration(sql)
    const seen = {
      catalog: kind === 'catalog' ? basedOn : alongside,
      deployments: kind === 'catalog' ? alongside : basedOn,
    }
    for (const each of PUBLICATION_KINDS) {
      const newest = await findNewest(sql, each)
      if (newest !== null && newest.number !== seen[each]) return { outcome: 'newer_publication', newest }
    }
    if (draft !== undefined && !(await deleteDraft(sql, kind, draft)))
      return { outcome: 'newer_draft', draft: await findDraft(sql, kind) }
    const revision = await raiseRevision(sql)
    const number = await insertPublication(sql, author, { kind, content, reason, fileSha256: null })
    return { outcome: 'published', number, revision }
  })
}
