import type { Author } from '#shared/operators/author.ts'
import type { PublicationKind } from '#shared/operators/configuration.ts'
import type { ConfigurationFile, Draft } from '#shared/operators/publication.ts'
import { recordAction } from '../operators/record-action.ts'
import type { Pool, Sql } from '../pool.ts'
import { readFirst } from '../read-rows.ts'
import { inTransaction } from '../transaction.ts'
import { lockConfiguration } from './revision.ts'

export interface DraftEdit extends ConfigurationFile {
  /** The revision of the draft that was edited; `null` to begin one. */
  readonly edited: bigint | null
  /** The publication in force that its author has seen, on which a new draft is based; `null` for none. */
  readonly basedOn: bigint | null
}

export type DraftOutcome =
  | { readonly outcome: 'saved'; readonly draft: Draft }
  | { readonly outcome: 'newer_draft'; readonly draft: Draft | null }

export async function findDraft(sql: Sql, kind: PublicationKind): Promise<Draft | null> {
  const draft = await readFirst<Draft>(sql, {
    name: 'find_draft',
    text: `SELECT kind, content, based_on AS "basedOn", operator, revision, edited_at AS "editedAt"
     FROM configuration_drafts WHERE kind = $1`,
    values: [kind],
  })
  return draft ?? null
}

/** Saves a draft, unless it was edited since `edited`. */
export async function saveDraft(
  pool: Pool,
  author: Author,
  { kind, content, edited, basedOn }: DraftEdit,
): Promise<DraftOutcome> {
  return await inTransaction(pool, async (sql) => {
    await lockConfiguration(sql)
    const current = await findDraft(sql, kind)
    if ((current?.revision ?? null) !== edited) return { outcome: 'newer_draft', draft: current }
    await sql.query({
      name: 'save_draft',
      // A revision is never used twice: a draft that begins after another ended must not be taken for that one.
      text: `INSERT INTO configuration_drafts (kind, content, based_on, operator, revision)
             VALUES ($1, $2, (SELECT number FROM publications WHERE kind = $1 AND number = $4), $3,
               (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
             ON CONFLICT (kind) DO UPDATE SET content = EXCLUDED.content, operator = EXCLUDED.operator,
               revision = configuration_drafts.revision + 1, edited_at = now()`,
      values: [kind, JSON.stringify(content), author.operator, basedOn],
    })
    await recordAction(sql, author, { action: 'configuration.draft', subject: kind, reason: null, details: {} })
    const draft = await findDraft(sql, kind)
    if (!draft) throw new Error(`the draft of ${kind} was not saved`)
    return { outcome: 'saved', draft }
  })
}

/** Deletes a draft with this revision. Returns whether there was one. */
export async function discardDraft(
  pool: Pool,
  author: Author,
  kind: PublicationKind,
  revision: bigint,
): Promise<boolean> {
  return await inTransaction(pool, async (sql) => {
    await lockConfiguration(sql)
    const isDeleted = await deleteDraft(sql, kind, revision)
    if (isDeleted)
      await recordAction(sql, author, { action: 'configuration.discard', subject: kind, reason: null, details: {} })
    return isDeleted
  })
}

export async function deleteDraft(sql: Sql, kind: PublicationKind, revision: bigint): Promise<boolean> {
  const { rowCount } = await sql.query({
    name: 'delete_draft',
    text: 'DELETE FROM configuration_drafts WHERE kind = $1 AND revision = $2',
    values: [kind, revision],
  })
  return rowCount === 1
}
