import type { Operator, Role } from '#shared/operators/operator-account.ts'
import type { Sql } from '../pool.ts'

/** Returns whose session a token stands for. Its use is written once a minute, not with every request. */
export async function useSession(sql: Sql, tokenSha256: string, idleSeconds: number): Promise<Operator | null> {
  const { rows } = await sql.query<{ name: string; role: Role }>({
    name: 'use_operator_session',
    text: `WITH valid AS (
         SELECT token_sha256, last_used_at, name, role FROM operator_sessions JOIN operators ON name = operator
         WHERE token_sha256 = $1 AND expires_at > now() AND last_used_at > now() - $2::int * interval '1 second'
           AND disabled_at IS NULL),
       used AS (
         UPDATE operator_sessions SET last_used_at = now() FROM valid
         WHERE operator_sessions.token_sha256 = valid.token_sha256
           AND valid.last_used_at < now() - interval '1 minute')
     SELECT name, role FROM valid`,
    values: [tokenSha256, idleSeconds],
  })
  return rows[0] ?? null
}
