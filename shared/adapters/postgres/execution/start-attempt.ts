import type { ExecutionStore } from '#shared/jobs/execution-store.ts'
import type { ClaimedJob } from '#shared/jobs/job.ts'
import { newId } from '#shared/runtime/new-id.ts'
import { type SharedTransition, shareMove } from '../move-job.ts'
import type { Sql } from '../pool.ts'

interface Attempt {
  readonly id: string
  readonly job: ClaimedJob
  readonly deployment: string
  /** The attempt before it, which failed definitely. */
  readonly failed: { readonly attemptId: string; readonly reason: string } | null
}

/**
 * Creates a function that moves accepted → generating, or generating → generating with the next deployment, those jobs in
 * one statement that are ready at the same time. The attempt's row is committed before the provider is called, so a
 * crash cannot hide a call.
 */
export function createAttemptStarter(sql: Sql): ExecutionStore['startAttempt'] {
  const start = shareMove<Attempt>(sql, START_ATTEMPTS)
  return async (job, deployment, failed) => {
    const attempt = { id: newId(), job, deployment, failed }
    return { written: await start(attempt), attemptId: attempt.id }
  }
}

const START_ATTEMPTS: SharedTransition<Attempt> = {
  to: 'generating',
  name: 'start_attempts',
  columns: [
    { name: 'attempt_id', type: 'uuid', of: ({ id }) => id },
    { name: 'authorization_id', type: 'uuid', of: ({ job }) => job.authorizationId },
    { name: 'deployment', type: 'text', of: ({ deployment }) => deployment },
    { name: 'failed_id', type: 'uuid', of: ({ failed }) => failed?.attemptId ?? null },
    { name: 'reason', type: 'text', of: ({ failed }) => failed?.reason ?? null },
  ],
  together: [
    `ended AS (
       UPDATE upstream_attempts SET state = 'failed_definite', reason = moved.reason, finished_at = now()
       FROM moved WHERE upstream_attempts.id = moved.failed_id RETURNING upstream_attempts.id)`,
    // An authorization may have only one attempt that has not failed, so the failed one must end first.
    `started AS (
       INSERT INTO upstream_attempts (id, job_id, authorization_id, deployment, state)
       SELECT attempt_id, id, authorization_id, deployment, 'open' FROM moved
       WHERE failed_id IS NULL OR EXISTS (SELECT FROM ended WHERE ended.id = failed_id))`,
  ],
}
