import type { ExecutionStore } from '#shared/jobs/execution-store.ts'
import type { ClaimedJob, Written } from '#shared/jobs/job.ts'
import { newId } from '#shared/runtime/new-id.ts'
import { shareStatement } from '../batch.ts'
import { moveJob, moveJobs } from '../move-job.ts'
import type { Sql } from '../pool.ts'

interface Attempt {
  readonly id: string
  readonly job: ClaimedJob
  readonly deployment: string
}

/**
 * Creates a function that moves accepted → generating, those jobs in one statement that are ready at the same time, or
 * generating → generating with the next deployment. The attempt's row is committed before the provider is called, so a
 * crash cannot hide a call.
 */
export function createAttemptStarter(sql: Sql): ExecutionStore['startAttempt'] {
  const startFirst = shareStatement<Attempt, Written>({
    keyOf: ({ job }) => job.id,
    together: (attempts) => startTogether(sql, attempts),
    alone: (attempt) => startAttempt(sql, attempt, null),
  })
  return async (job, deployment, failed) => {
    const attempt = { id: newId(), job, deployment }
    const written = await (failed ? startAttempt(sql, attempt, failed) : startFirst(attempt))
    return { written, attemptId: attempt.id }
  }
}

async function startTogether(sql: Sql, attempts: readonly Attempt[]): Promise<ReadonlyMap<string, Written>> {
  const moved = await moveJobs(sql, attempts, 'generating', {
    name: 'start_attempts',
    columns: [
      { name: 'attempt_id', type: 'uuid', of: ({ id }) => id },
      { name: 'authorization_id', type: 'uuid', of: ({ job }) => job.authorizationId },
      { name: 'deployment', type: 'text', of: ({ deployment }) => deployment },
    ],
    together: [
      `started AS (
         INSERT INTO upstream_attempts (id, job_id, authorization_id, deployment, state)
         SELECT attempt_id, id, authorization_id, deployment, 'open' FROM moved)`,
    ],
  })
  return new Map([...moved].map((id) => [id, 'written']))
}

async function startAttempt(
  sql: Sql,
  { id: attemptId, job, deployment }: Attempt,
  failed: { readonly attemptId: string; readonly reason: string } | null,
): Promise<Written> {
  return await moveJob(sql, job, 'generating', (parameter) => {
    const started = `started AS (
      INSERT INTO upstream_attempts (id, job_id, authorization_id, deployment, state)
      SELECT ${parameter(attemptId)}::uuid, id, ${parameter(job.authorizationId)}::uuid, ${parameter(deployment)}, 'open'
      FROM moved`
    if (!failed) return { name: 'start_attempt', together: [`${started})`] }
    const ended = `ended AS (
      UPDATE upstream_attempts SET state = 'failed_definite', reason = ${parameter(failed.reason)}, finished_at = now()
      FROM moved WHERE upstream_attempts.id = ${parameter(failed.attemptId)} RETURNING upstream_attempts.id)`
    // An authorization may have only one attempt that has not failed, so the failed one must end first.
    return { name: 'start_next_attempt', together: [ended, `${started} WHERE EXISTS (SELECT FROM ended))`] }
  })
}
