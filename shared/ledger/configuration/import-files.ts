import { canonicalJson, sha256Hex } from '#shared/digests/canonical-json.ts'
import type { Author } from '#shared/operators/author.ts'
import type { PublicationKind } from '#shared/operators/configuration.ts'
import type { ConfigurationFile } from '#shared/operators/publication.ts'
import type { Pool } from '../pool.ts'
import { inTransaction } from '../transaction.ts'
import { findNewest, findNewestImport, insertPublication } from './publications.ts'
import { lockConfiguration, raiseRevision } from './revision.ts'

export interface ImportedFile extends ConfigurationFile {
  readonly reason: string
}

export type ImportOutcome =
  | { readonly outcome: 'published'; readonly number: bigint; readonly revision: bigint }
  /** The newest publication of the kind has this content. */
  | { readonly outcome: 'unchanged'; readonly number: bigint }

/** The author of what a process publishes by itself. */
const IMPORT: Author = { operator: 'import', source: 'command' }

/**
 * Publishes each file of which nothing was published yet: a process calls it with its files at its start, and only the
 * first one has an effect. Returns the kinds whose file differs from the one that was imported last.
 */
export async function importFirstFiles(
  pool: Pool,
  files: readonly ConfigurationFile[],
): Promise<readonly PublicationKind[]> {
  return await inTransaction(pool, async (sql) => {
    await lockConfiguration(sql)
    const differing: PublicationKind[] = []
    for (const { kind, content } of files) {
      const fileSha256 = digestOf(content)
      if ((await findNewest(sql, kind)) === null) {
        await raiseRevision(sql)
        await insertPublication(sql, IMPORT, { kind, content, reason: 'first start', fileSha256 })
      } else if ((await findNewestImport(sql, kind)) !== fileSha256) differing.push(kind)
    }
    return differing
  })
}

/** Publishes the content of a file, unless it is in force. */
export async function importFile(
  pool: Pool,
  author: Author,
  { kind, content, reason }: ImportedFile,
): Promise<ImportOutcome> {
  return await inTransaction(pool, async (sql) => {
    await lockConfiguration(sql)
    const [newest, fileSha256] = [await findNewest(sql, kind), digestOf(content)]
    const isImported = (await findNewestImport(sql, kind)) === fileSha256
    if (newest !== null && isImported && digestOf(newest.content) === fileSha256)
      return { outcome: 'unchanged', number: newest.number }
    const revision = await raiseRevision(sql)
    return {
      outcome: 'published',
      number: await insertPublication(sql, author, { kind, content, reason, fileSha256 }),
      revision,
    }
  })
}

/** Publishes the content of a file, unless it was the last one that was imported: later publications stay in force. */
export async function importChangedFile(pool: Pool, author: Author, file: ImportedFile): Promise<void> {
  const isImported = (await findNewestImport(pool, file.kind)) === digestOf(file.content)
  if (!isImported) await importFile(pool, author, file)
}

/** Returns the same digest for files that differ in spaces or the order of members only. */
function digestOf(content: ConfigurationFile['content']): string {
  return sha256Hex(canonicalJson(content))
}
