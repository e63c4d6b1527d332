import type { LeasedJob } from '#shared/jobs/job.ts'
import type { UnchargedWork } from '#shared/jobs/uncharged-work.ts'
import type { Parameter } from './move-job.ts'

/**
 * Returns the part of a transition that writes the job's uncharged work. `deployment` is an SQL expression over the
 * other parts, for the deployment that was called.
 */
export function insertUnchargedWork(
  { authorization, authorizationId }: LeasedJob,
  { kind, amount }: UnchargedWork,
  parameter: Parameter,
  deployment = 'NULL::text',
): string {
  return `uncharged AS (
    INSERT INTO uncharged_work (job_id, authorization_id, network, payer, kind, amount, deployment, is_new_payer,
      client_network)
    SELECT jobs.id, ${parameter(authorizationId)}::uuid, ${parameter(authorization.network)}, ${parameter(authorization.payer)},
      ${parameter(kind)}, ${parameter(amount.toString())}::numeric, ${deployment}, jobs.is_new_payer,
      CASE WHEN jobs.is_new_payer THEN jobs.client_network END
    FROM moved JOIN jobs ON jobs.id = moved.id)`
}
