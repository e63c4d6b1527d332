import type { ClaimedJob, Failure, Written } from '#shared/jobs/job.ts'
import { moveJob, type Parameter } from '../move-job.ts'
import type { Sql } from '../pool.ts'

/**
 * Moves generated or settling → settlement_failed: the result is withheld until a new authorization pays for it. The
 * payer owes the charge, unless the authorization expired first, which is the service's fault.
 */
export function failSettlement(sql: Sql, job: ClaimedJob, failure: Failure): Promise<Written> {
  return moveJob(sql, job, 'settlement_failed', (parameter) => ({
    name: 'fail_settlement',
    set: [
      `failure_code = ${parameter(failure.code)}`,
      `failure_reason = ${parameter(failure.reason)}`,
      'finished_at = now()',
      'lease_expires_at = NULL',
      'is_owed = (SELECT deadline > now() FROM authorizations WHERE id = authorization_id)',
    ],
    together: [
      endSettlement(job, 'reverted', parameter),
      `released AS (
         UPDATE authorizations SET permit_released_at = now()
         FROM moved WHERE authorizations.id = ${parameter(job.authorizationId)})`,
    ],
  }))
}

/** Moves settling → review: no rule explains what is on chain, so a person must decide. */
export function markForReview(sql: Sql, job: ClaimedJob, reason: string): Promise<Written> {
  return moveJob(sql, job, 'review', (parameter) => ({
    name: 'mark_for_review',
    set: [`failure_reason = ${parameter(reason)}`, 'finished_at = now()', 'lease_expires_at = NULL'],
    together: [endSettlement(job, 'unproven', parameter)],
  }))
}

function endSettlement({ authorizationId }: ClaimedJob, state: 'reverted' | 'unproven', parameter: Parameter): string {
  return `settlement AS (
    UPDATE settlements SET state = '${state}', finished_at = now()
    FROM moved WHERE authorization_id = ${parameter(authorizationId)} AND state = 'signed')`
}
