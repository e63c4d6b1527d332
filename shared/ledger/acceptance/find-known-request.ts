import type { JobState } from '#shared/jobs/job.ts'
import type { AllowancePermit } from '#shared/payment/allowance-permit.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import { columnsOf, listed } from '../listed.ts'
import type { Sql } from '../pool.ts'
import { readRows } from '../read-rows.ts'
import { shareStatement } from '../share-statements.ts'
import { BINDING_COLUMNS, type BindingColumns, bindingFromRow, type CurrentBinding } from './bind-key.ts'

/** What the ledger knows of a key and of a payment, read in one snapshot. */
export interface KnownRequest {
  /** `null` for a key that is free, with an expired challenge and no job, or one that ended uncharged. */
  readonly binding: CurrentBinding | null
  /**
   * The job that the key is bound to. `isReleasable`: uncharged, and its challenge has expired, so others may take it.
   */
  readonly holder: {
    readonly jobId: string
    readonly payer: string
    readonly state: JobState
    readonly isReleasable: boolean
  } | null
  /**
   * The job that claimed the authorization's nonce, with the SHA-256 of the challenge token that it was accepted with, which
   * unlike the signature never appears on chain.
   */
  readonly claim: { readonly jobId: string; readonly challengeTokenSha256: string } | null
  /** The payer's permit that waits for its next charge, see `PermitStore`. */
  readonly storedPermit: AllowancePermit | null
}

/** What identifies a payment; `null` to ask about the key alone. */
type PresentedNonce = Pick<Authorization, 'network' | 'payer' | 'nonce'> | null

interface KnownRequestRow extends BindingColumns {
  readonly idempotencyKey: string
  readonly isBound: boolean
  readonly holderId: string | null
  readonly payer: string | null
  readonly state: JobState | null
  readonly isReleasable: boolean | null
  readonly claimedFor: string | null
  readonly challengeTokenSha256: string | null
  readonly owner: AllowancePermit['owner'] | null
  readonly value: bigint
  readonly permitNonce: bigint
  readonly deadline: bigint
  readonly signature: AllowancePermit['signature']
}

interface Asked {
  readonly idempotencyKey: string
  readonly authorization: PresentedNonce
}

const KNOWN_OF_ASKED = `
  SELECT ${BINDING_COLUMNS},
    coalesce(bound.expires_at > now() OR (holder.id = bound.job_id AND holder.state <> 'failed'), false) AS "isBound",
    holder.id AS "holderId", holder.payer, holder.state,
    holder.state = 'failed' AND bound.expires_at <= now() AS "isReleasable", claim.job_id AS "claimedFor",
    claim.challenge_token_sha256 AS "challengeTokenSha256",
    permit.owner, permit.value, permit.permit_nonce AS "permitNonce", permit.deadline, permit.signature
  FROM (VALUES (true)) AS always
  LEFT JOIN jobs AS holder ON holder.idempotency_key = asked.idempotency_key
  LEFT JOIN idempotency_keys AS bound ON bound.idempotency_key = asked.idempotency_key
  LEFT JOIN authorizations AS claim
    ON claim.network = asked.network AND claim.payer = asked.payer AND claim.nonce = asked.nonce
  LEFT JOIN stored_permits AS permit ON permit.owner = asked.payer AND permit.expires_at > now() OFFSET 0`

/**
 * Creates a function that returns what the ledger knows of a key and of a payment. One statement, so one snapshot: read
 * separately, a job accepted in between would look like someone else's. Requests that arrive at the same time share it.
 */
export function createKnownRequestFinder(sql: Sql) {
  const find = shareStatement<Asked, KnownRequest>({
    keyOf: ({ idempotencyKey }) => idempotencyKey,
    run: (asked) => findKnownRequests(sql, asked),
  })
  return (idempotencyKey: string, authorization: PresentedNonce) => find({ idempotencyKey, authorization })
}

async function findKnownRequests(sql: Sql, asked: readonly Asked[]): Promise<ReadonlyMap<string, KnownRequest>> {
  const rows = await readRows<KnownRequestRow>(sql, {
    name: 'find_known_requests',
    text: `SELECT asked.idempotency_key AS "idempotencyKey", known.*
     FROM ${listed('text', 'text', 'text', 'numeric')} AS asked (idempotency_key, network, payer, nonce)
     CROSS JOIN LATERAL (${KNOWN_OF_ASKED}) AS known`,
    values: columnsOf(asked.map(askedValues)),
  })
  return new Map(rows.map((row) => [row.idempotencyKey, knownRequestFromRow(row)]))
}

function askedValues({ idempotencyKey, authorization }: Asked) {
  return [
    idempotencyKey,
    authorization?.network ?? null,
    authorization?.payer ?? null,
    authorization?.nonce.toString() ?? null,
  ] as const
}

function knownRequestFromRow(row: KnownRequestRow): KnownRequest {
  const { isBound, holderId: jobId, payer, state, isReleasable, claimedFor, challengeTokenSha256 } = row
  const { owner, value, permitNonce: nonce, deadline, signature } = row
  const hasHolder = jobId !== null && payer !== null && state !== null
  const isClaimed = claimedFor !== null && challengeTokenSha256 !== null
  return {
    binding: isBound ? bindingFromRow(row) : null,
    holder: hasHolder ? { jobId, payer, state, isReleasable: isReleasable === true } : null,
    claim: isClaimed ? { jobId: claimedFor, challengeTokenSha256 } : null,
    storedPermit: owner === null ? null : { owner, value, nonce, deadline, signature },
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
