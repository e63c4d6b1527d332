import type { Author } from '#shared/operators/author.ts'
import type { ConfigurationFile } from '#shared/operators/configuration-store.ts'
import { recordAction } from '../operators/record-action.ts'
import type { Sql } from '../pool.ts'

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
  const { rows } = await sql.query<{ number: string }>({
    name: 'insert_publication',
    text: `INSERT INTO publications (kind, content, operator, reason, file_sha256)
           VALUES ($1, $2, $3, $4, $5) RETURNING number`,
    values: [kind, JSON.stringify(content), author.operator, reason, fileSha256],
  })
  const number = BigInt(rows[0]?.number ?? 0)
  await recordAction(sql, author, {
    action: fileSha256 === null ? 'configuration.publish' : 'configuration.import',
    subject: kind,
    reason,
    details: { publication: number.toString() },
  })
  return number
}
