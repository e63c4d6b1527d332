import type { Author } from '#shared/operators/author.ts'
import { PUBLICATION_KINDS } from '#shared/operators/configuration.ts'
import type { NewPublication, PublishOutcome } from '#shared/operators/configuration-store.ts'
import type { Pool } from '../pool.ts'
import { inTransaction } from '../transaction.ts'
import { deleteDraft, findDraft } from './drafts.ts'
import { findNewest } from './find-publication.ts'
import { insertPublication } from './insert-publication.ts'
import { lockConfiguration, raiseRevision } from './raise-revision.ts'

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
