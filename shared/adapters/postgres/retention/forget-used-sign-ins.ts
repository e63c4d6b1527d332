import type { Sql } from '../pool.ts'

/** Longer than the clocks of API processes may differ: until then one of them may still accept the challenge. */
const FORGET_AFTER_SECONDS = 120

/** Deletes nonces of sign-in challenges that have expired. Returns their number. */
export async function forgetUsedSignIns(sql: Sql, limit: number): Promise<number> {
  const { rowCount } = await sql.query({
    name: 'forget_used_sign_ins',
    text: `DELETE FROM used_sign_ins WHERE nonce IN (
       SELECT nonce FROM used_sign_ins WHERE expires_at <= now() - make_interval(secs => $1)
       ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)`,
    values: [FORGET_AFTER_SECONDS, limit],
  })
  return rowCount ?? 0
}
