import type { Sql } from '../pool.ts'

export async function readPasswordHash(sql: Sql, name: string): Promise<string | null> {
  const { rows } = await sql.query<{ password_hash: string }>({
    name: 'read_operator_password',
    text: 'SELECT password_hash FROM operators WHERE name = $1 AND disabled_at IS NULL',
    values: [name],
  })
  return rows[0]?.password_hash ?? null
}

export async function readCookieSecret(sql: Sql): Promise<Buffer> {
  const { rows } = await sql.query<{ secret: Buffer }>('SELECT secret FROM console_secret')
  if (!rows[0]) throw new Error('the migration wrote the secret of the console')
  return rows[0].secret
}

/** Deletes sessions that have expired, and failures that no limit counts any more. */
export async function sweepSessions(sql: Sql): Promise<void> {
  await sql.query('DELETE FROM operator_sessions WHERE expires_at < now()')
  await sql.query(`DELETE FROM failed_sign_ins WHERE failed_at < now() - interval '1 day'`)
}
