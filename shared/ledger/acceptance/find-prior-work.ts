import type { JobState } from '#shared/jobs/job.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import { columnsOf, listed } from '../listed.ts'
import type { Sql } from '../pool.ts'
import { readRows } from '../read-rows.ts'
import { shareStatement } from '../share-statements.ts'

/** The jobs that a key and an authorization already belong to, read in one snapshot. */
export interface PriorWork {
  /**
   * The job that the key is bound to. `isReleasable`: uncharged, and its challenge has expired, so others may take it.
   */
  readonly holder: {
    readonly jobId: string
    readonly payer: string
    readonly state: JobState
    readonly isReleasable: boolean
  } | null
  /** The job that claimed the authorization's nonce, and whether it was accepted with this challenge token. */
  readonly claim: { readonly jobId: string; readonly hasSameToken: boolean } | null
}

/** A payment as it was presented. */
export interface PresentedClaim {
  readonly authorization: Authorization
  /** SHA-256 of the challenge token, which unlike the signature never appears on chain; `null` to ask without one. */
  readonly challengeTokenSha256: string | null
}

interface PriorWorkRow {
  readonly idempotencyKey: string
  readonly holderId: string | null
  readonly payer: string | null
  readonly state: JobState | null
  readonly isReleasable: boolean | null
  readonly claimedFor: string | null
  readonly hasSameToken: boolean | null
}

interface Presented {
  readonly idempotencyKey: string
  readonly claim: PresentedClaim
}

const ASKED = '(idempotency_key, network, payer, nonce, challenge_token_sha256)'
const PRIOR_WORK_OF_ASKED = `
  SELECT holder.id AS "holderId", holder.payer, holder.state,
    holder.state = 'failed' AND bound.expires_at <= now() AS "isReleasable", claim.job_id AS "claimedFor",
    claim.challenge_token_sha256 = asked.challenge_token_sha256 AS "hasSameToken"
  FROM (VALUES (true)) AS always
  LEFT JOIN jobs AS holder ON holder.idempotency_key = asked.idempotency_key
  LEFT JOIN idempotency_keys AS bound ON bound.idempotency_key = holder.idempotency_key
  LEFT JOIN authorizations AS claim
    ON claim.network = asked.network AND claim.payer = asked.payer AND claim.nonce = asked.nonce OFFSET 0`

/**
 * Creates a function that returns the job of a key and the job of a payment nonce. One statement, so one snapshot: read
 * separately, a job accepted in between would look like someone else's. Requests that arrive at the same time share it.
 */
export function createPriorWorkFinder(sql: Sql) {
  const find = shareStatement<Presented, PriorWork>({
    keyOf: ({ idempotencyKey }) => idempotencyKey,
    run: (presented) => findPriorWorks(sql, presented),
  })
  return (idempotencyKey: string, claim: PresentedClaim) => find({ idempotencyKey, claim })
}

async function findPriorWorks(sql: Sql, presented: readonly Presented[]): Promise<ReadonlyMap<string, PriorWork>> {
  const rows = await readRows<PriorWorkRow>(sql, {
    name: 'find_prior_works',
    text: `SELECT asked.idempotency_key AS "idempotencyKey", "holderId", prior.payer, state, "isReleasable", "claimedFor",
       "hasSameToken"
     FROM ${listed('text', 'text', 'text', 'numeric', 'text')} AS asked ${ASKED}
     CROSS JOIN LATERAL (${PRIOR_WORK_OF_ASKED}) AS prior`,
    values: columnsOf(presented.map(askedValues)),
  })
  return new Map(rows.map((row) => [row.idempotencyKey, priorWorkFromRow(row)]))
}

function askedValues({ idempotencyKey, claim: { authorization, challengeTokenSha256 } }: Presented) {
  const { network, payer, nonce } = authorization
  return [idempotencyKey, network, payer, nonce.toString(), challengeTokenSha256] as const
}

function priorWorkFromRow({ holderId: jobId, payer, state, claimedFor, ...row }: PriorWorkRow): PriorWork {
  const hasHolder = jobId !== null && payer !== null && state !== null
  return {
    holder: hasHolder ? { jobId, payer, state, isReleasable: row.isReleasable === true } : null,
    claim: claimedFor === null ? null : { jobId: claimedFor, hasSameToken: row.hasSameToken === true },
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
