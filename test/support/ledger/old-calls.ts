import type { LeasedJob } from '#shared/jobs/job.ts'
import { fencedWrites, jobInState } from './job-in-state.ts'
import { newTestJob } from './new-test-job.ts'
import { settlingBatch } from './settling-batch.ts'
import { testAuthorization } from './test-authorization.ts'
import type { TestLedger } from './test-ledger.ts'

/** The month in which old calls finished. */
export const OLD_MONTH = '2026-05'
/** The first month after it. */
export const NEXT_MONTH = '2026-06'

/** Creates completed calls of one payer that are over since `OLD_MONTH`. */
export async function oldCalls(ledger: TestLedger, count: number): Promise<readonly LeasedJob[]> {
  const { payer } = testAuthorization()
  const jobs: LeasedJob[] = []
  while (jobs.length < count)
    jobs.push(await jobInState(ledger, 'completed', newTestJob({ authorization: testAuthorization({ payer }) })))
  await makeOld(
    ledger,
    jobs.map(({ id }) => id),
  )
  return jobs
}

/** Creates completed calls that were settled in one batch, and are over since `OLD_MONTH`. */
export async function oldBatch(ledger: TestLedger, count: number): Promise<readonly LeasedJob[]> {
  const jobs = (await settlingBatch(ledger, count)).map(({ job }) => job)
  for (const job of jobs) await fencedWrites.completeJob.run(ledger, job)
  await makeOld(
    ledger,
    jobs.map(({ id }) => id),
  )
  return jobs
}

/** Makes completed calls as old as if they had finished in `OLD_MONTH`, a second after each other: nothing of them is open. */
export async function makeOld({ sql }: Pick<TestLedger, 'sql'>, jobIds: readonly string[]): Promise<void> {
  await sql('UPDATE settlements SET finalized_at = now() WHERE job_id = ANY($1)', [jobIds])
  await sql("UPDATE authorizations SET deadline = now() - interval '90 days' WHERE job_id = ANY($1)", [jobIds])
  await sql("UPDATE idempotency_keys SET expires_at = now() - interval '90 days' WHERE job_id = ANY($1)", [jobIds])
  await sql(
    `UPDATE jobs SET result_body = NULL, result_expired_at = now(), accepted_at = $2::timestamptz,
       finished_at = $2::timestamptz + make_interval(secs => array_position($1::uuid[], id))
     WHERE id = ANY($1)`,
    [jobIds, `${OLD_MONTH}-03T12:00:00Z`],
  )
}
