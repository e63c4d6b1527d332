import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { Sql } from '../pool.ts'

/** Returns a job's effective request, or `null` when no provider needs it any more. */
export async function readEffectiveRequest(sql: Sql, jobId: string): Promise<JsonValue | null> {
  const { rows } = await sql.query<{ effective_request: string | null }>({
    name: 'read_effective_request',
    text: 'SELECT effective_request FROM jobs WHERE id = $1',
    values: [jobId],
  })
  const text = rows[0]?.effective_request
  return text === undefined || text === null ? null : (JSON.parse(text) as JsonValue)
}
