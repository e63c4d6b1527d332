import type { Sql } from '../pool.ts'

/**
 * A payment sent after its challenge expired is answered with a new challenge, for which the key need not be stored.
 * Only a payment that arrived in time and is still being verified needs it: verification takes a few RPC timeouts.
 * Unpaid requests cost nothing, so their keys must not stay longer than necessary.
 */
const FORGET_AFTER_SECONDS = 120

/** Deletes keys without a job whose challenge has expired. Returns their number. */
export async function forgetExpiredChallenges(sql: Sql, limit: number): Promise<number> {
  const { rowCount } = await sql.query({
    name: 'forget_expired_challenges',
    text: `DELETE FROM idempotency_keys WHERE idempotency_key IN (
       SELECT idempotency_key FROM idempotency_keys
       WHERE job_id IS NULL AND expires_at <= now() - make_interval(secs => $1)
       ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)`,
    values: [FORGET_AFTER_SECONDS, limit],
  })
  return rowCount ?? 0
}
