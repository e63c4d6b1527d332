import type { JobState } from '#shared/jobs/job.ts'
import type { PriorWork } from '#shared/jobs/job-store.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { Sql } from '../pool.ts'

interface PriorWorkRow {
  holder_id: string | null
  payer: string | null
  state: JobState | null
  claimed_for: string | null
}

/**
 * The job behind a key and the job behind a payment nonce. One statement, one snapshot: read apart, a job that is accepted
 * in between would look like somebody else's.
 */
export async function findPriorWork(
  sql: Sql,
  idempotencyKey: string,
  { network, payer, nonce }: Authorization,
): Promise<PriorWork> {
  const { rows } = await sql.query<PriorWorkRow>(
    `SELECT holder.id AS holder_id, holder.payer, holder.state, claim.job_id AS claimed_for
     FROM (VALUES (true)) AS always
     LEFT JOIN jobs AS holder ON holder.idempotency_key = $1
     LEFT JOIN authorizations AS claim ON claim.network = $2 AND claim.payer = $3 AND claim.nonce = $4`,
    [idempotencyKey, network, payer, nonce.toString()],
  )
  const [row] = rows
  if (!row) throw new Error('a left join from one row has one row')
  const { holder_id: jobId, payer: holderPayer, state, claimed_for: claimedFor } = row
  const held = jobId !== null && holderPayer !== null && state !== null
  return { holder: held ? { jobId, payer: holderPayer, state } : null, claimedFor }
}

/** Whether the key has a job, whoever paid for it, other than one that failed and would be run again. */
export async function hasJob(sql: Sql, idempotencyKey: string): Promise<boolean> {
  const { rows } = await sql.query("SELECT 1 FROM jobs WHERE idempotency_key = $1 AND state <> 'failed'", [
    idempotencyKey,
  ])
  return rows.length > 0
}
