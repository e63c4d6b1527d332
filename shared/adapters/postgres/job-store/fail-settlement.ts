import type { ClaimedJob } from '#shared/jobs/job.ts'
import type { Failure, Written } from '#shared/jobs/job-store.ts'
import type { Pool } from '../pool.ts'
import { asTransition, moveJob, notifyOutcome } from './move-job.ts'

/**
 * generated or settling → settlement_failed: the work is stored and withheld until a fresh authorization pays for it. The payer
 * owes the charge, unless it was we who let the authorization expire.
 */
export async function failSettlement(pool: Pool, job: ClaimedJob, failure: Failure): Promise<Written> {
  return await asTransition(pool, async (sql) => {
    await moveJob(
      sql,
      job,
      'settlement_failed',
      `, failure_code = $5, failure_reason = $6, finished_at = now(), lease_expires_at = NULL,
       is_owed = (SELECT deadline > now() FROM authorizations WHERE id = authorization_id)`,
      [failure.code, failure.reason],
    )
    await sql.query(
      `UPDATE settlements SET state = 'reverted', finished_at = now() WHERE authorization_id = $1 AND state = 'signed'`,
      [job.authorizationId],
    )
    await sql.query('UPDATE authorizations SET permit_released_at = now() WHERE id = $1', [job.authorizationId])
    await notifyOutcome(sql, job.id)
  })
}

/** settling → review: the chain shows something that no rule here explains, so a person must look. */
export async function markForReview(pool: Pool, job: ClaimedJob, reason: string): Promise<Written> {
  return await asTransition(pool, async (sql) => {
    await moveJob(sql, job, 'review', ', failure_reason = $5, finished_at = now(), lease_expires_at = NULL', [reason])
    await sql.query(
      `UPDATE settlements SET state = 'unproven', finished_at = now() WHERE authorization_id = $1 AND state = 'signed'`,
      [job.authorizationId],
    )
    await notifyOutcome(sql, job.id)
  })
}
