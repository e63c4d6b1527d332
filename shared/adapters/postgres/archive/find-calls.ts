import type { Sql } from '../pool.ts'
import { NOT_ARCHIVED } from './is-over.ts'
import { boundsOf } from './month.ts'

/** Calls of one object: about a megabyte of text, which a process that looks for one receipt reads as a whole. */
const CALLS_OF_OBJECT = 256

/**
 * Returns the ids of a month's completed calls that are not archived. They are sorted once, by a cursor that outlives its
 * transaction, so `sql` must be one session. No transaction stays open between two steps.
 */
export async function* findCalls(sql: Sql, month: string): AsyncGenerator<readonly string[]> {
  const [from, before] = boundsOf(month)
  await sql.query('BEGIN')
  // A cursor takes no parameters from node-postgres; both are times that were written here.
  const calls = NOT_ARCHIVED.replace('$1', `'${from.toISOString()}'`).replace('$2', `'${before.toISOString()}'`)
  await sql.query(
    `DECLARE calls_to_archive NO SCROLL CURSOR WITH HOLD FOR
       SELECT jobs.id FROM jobs WHERE ${calls} ORDER BY payer, finished_at, id`,
  )
  await sql.query('COMMIT')
  try {
    for (;;) {
      const { rows } = await sql.query<{ id: string }>(`FETCH ${CALLS_OF_OBJECT} FROM calls_to_archive`)
      if (rows.length === 0) return
      yield rows.map(({ id }) => id)
    }
  } finally {
    await sql.query('CLOSE calls_to_archive')
  }
}
