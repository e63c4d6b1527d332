import type { PriorWork } from '#shared/jobs/admission-store.ts'
import type { JobState } from '#shared/jobs/job.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { Sql } from '../pool.ts'

interface PriorWorkRow {
  holder_id: string | null
  payer: string | null
  state: JobState | null
  claimed_for: string | null
}

/**
 * Returns the job of a key and the job of a payment nonce. One statement, so one snapshot: read separately, a job
 * accepted in between would look like someone else's.
 */
export async function findPriorWork(
  sql: Sql,
  idempotencyKey: string,
  { network, payer, nonce }: Authorization,
): Promise<PriorWork> {
  const { rows } = await sql.query<PriorWorkRow>({
    name: 'find_prior_work',
    text: `SELECT holder.id AS holder_id, holder.payer, holder.state, claim.job_id AS claimed_for
     FROM (VALUES (true)) AS always
     LEFT JOIN jobs AS holder ON holder.idempotency_key = $1
     LEFT JOIN authorizations AS claim ON claim.network = $2 AND claim.payer = $3 AND claim.nonce = $4`,
    values: [idempotencyKey, network, payer, nonce.toString()],
  })
  const [row] = rows
  if (!row) throw new Error('a left join from one row always returns it')
  const { holder_id: jobId, payer: holderPayer, state, claimed_for: claimedFor } = row
  const hasHolder = jobId !== null && holderPayer !== null && state !== null
  return { holder: hasHolder ? { jobId, payer: holderPayer, state } : null, claimedFor }
}

/** Returns whether the key has a job, of any payer, other than a failed one that would be run again. */
export async function hasJob(sql: Sql, idempotencyKey: string): Promise<boolean> {
  const { rows } = await sql.query({
    name: 'has_job',
    text: "SELECT 1 FROM jobs WHERE idempotency_key = $1 AND state <> 'failed'",
    values: [idempotencyKey],
  })
  return rows.length > 0
}
