import type { ClaimedJob } from '#shared/jobs/job.ts'
import type { Failure, Written } from '#shared/jobs/job-store.ts'
import { moveJob, type Parameter } from '../execution/move-job.ts'
import type { Sql } from '../pool.ts'

/**
 * generated or settling → settlement_failed: the work is stored and withheld until a fresh authorization pays for it. The payer
 * owes the charge, unless it was we who let the authorization expire.
 */
export function failSettlement(sql: Sql, job: ClaimedJob, failure: Failure): Promise<Written> {
  return moveJob(sql, job, 'settlement_failed', (parameter) => ({
    set: [
      `failure_code = ${parameter(failure.code)}`,
      `failure_reason = ${parameter(failure.reason)}`,
      'finished_at = now()',
      'lease_expires_at = NULL',
      'is_owed = (SELECT deadline > now() FROM authorizations WHERE id = authorization_id)',
    ],
    together: [
      endedSettlement(job, 'reverted', parameter),
      `released AS (
         UPDATE authorizations SET permit_released_at = now()
         FROM moved WHERE authorizations.id = ${parameter(job.authorizationId)})`,
    ],
  }))
}

/** settling → review: the chain shows something that no rule here explains, so a person must look. */
export function markForReview(sql: Sql, job: ClaimedJob, reason: string): Promise<Written> {
  return moveJob(sql, job, 'review', (parameter) => ({
    set: [`failure_reason = ${parameter(reason)}`, 'finished_at = now()', 'lease_expires_at = NULL'],
    together: [endedSettlement(job, 'unproven', parameter)],
  }))
}

function endedSettlement(
  { authorizationId }: ClaimedJob,
  state: 'reverted' | 'unproven',
  parameter: Parameter,
): string {
  return `settlement AS (
    UPDATE settlements SET state = '${state}', finished_at = now()
    FROM moved WHERE authorization_id = ${parameter(authorizationId)} AND state = 'signed')`
}
