import type { RecordedObject } from '#shared/archive/archived-object.ts'
import type { Sql } from '../pool.ts'

const PAGE_SIZE = 1000

/** Returns what was archived, newest first. */
export async function* listObjects(sql: Sql): AsyncGenerator<RecordedObject> {
  for (let before: number | null = null; ; ) {
    const { rows }: { rows: (RecordedObject & { id: number })[] } = await sql.query({
      name: 'list_archive_objects',
      text: `SELECT id, key, sha256 FROM archive_objects WHERE $1::integer IS NULL OR id < $1
       ORDER BY id DESC LIMIT ${PAGE_SIZE}`,
      values: [before],
    })
    yield* rows
    const last = rows.at(-1)
    if (!last) return
    before = last.id
  }
}
