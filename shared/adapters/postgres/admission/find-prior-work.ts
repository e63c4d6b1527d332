import type { PresentedClaim, PriorWork } from '#shared/jobs/admission-store.ts'
import type { JobState } from '#shared/jobs/job.ts'
import type { Sql } from '../pool.ts'

interface PriorWorkRow {
  holder_id: string | null
  payer: string | null
  state: JobState | null
  is_releasable: boolean | null
  claimed_for: string | null
  has_same_token: boolean | null
}

/**
 * How long a payment that an earlier version accepted, without storing its challenge token, can be presented again with
 * any token. Its callers may still wait for their results.
 */
const TOKENLESS_SECONDS = 3600

/**
 * Returns the job of a key and the job of a payment nonce. One statement, so one snapshot: read separately, a job
 * accepted in between would look like someone else's.
 */
export async function findPriorWork(
  sql: Sql,
  idempotencyKey: string,
  { authorization: { network, payer, nonce }, challengeTokenSha256 }: PresentedClaim,
): Promise<PriorWork> {
  const { rows } = await sql.query<PriorWorkRow>({
    name: 'find_prior_work',
    text: `SELECT holder.id AS holder_id, holder.payer, holder.state,
       holder.state = 'failed' AND bound.expires_at <= now() AS is_releasable, claim.job_id AS claimed_for,
       CASE WHEN claim.challenge_token_sha256 IS NOT NULL THEN claim.challenge_token_sha256 = $5
         ELSE claim.claimed_at > now() - make_interval(secs => $6) END AS has_same_token
     FROM (VALUES (true)) AS always
     LEFT JOIN jobs AS holder ON holder.idempotency_key = $1
     LEFT JOIN idempotency_keys AS bound ON bound.idempotency_key = holder.idempotency_key
     LEFT JOIN authorizations AS claim ON claim.network = $2 AND claim.payer = $3 AND claim.nonce = $4`,
    values: [idempotencyKey, network, payer, nonce.toString(), challengeTokenSha256, TOKENLESS_SECONDS],
  })
  const [row] = rows
  if (!row) throw new Error('a left join from one row always returns it')
  const { holder_id: jobId, payer: holderPayer, state, claimed_for: claimedFor } = row
  const hasHolder = jobId !== null && holderPayer !== null && state !== null
  return {
    holder: hasHolder ? { jobId, payer: holderPayer, state, isReleasable: row.is_releasable === true } : null,
    claim: claimedFor === null ? null : { jobId: claimedFor, hasSameToken: row.has_same_token === true },
  }
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

/** Returns the payer's oldest job that a worker has not finished, or `null`. */
export async function findOpenJob(sql: Sql, payer: string): Promise<string | null> {
  const { rows } = await sql.query<{ id: string }>({
    name: 'find_open_job',
    text: `SELECT id FROM jobs WHERE payer = $1 AND finished_at IS NULL AND state <> 'review'
     ORDER BY accepted_at LIMIT 1`,
    values: [payer],
  })
  return rows[0]?.id ?? null
}
