import { type Authorization, storedAuthorization } from '#shared/payment/authorization.ts'
import { columnsOf, listed } from '../listed.ts'
import { NAME_SUFFIX } from '../move-job.ts'
import type { Sql } from '../pool.ts'
import { readFirst } from '../read-rows.ts'
import type { LockedRows } from '../share-statements.ts'
import type { NewJob } from './acceptance.ts'

/** A payment whose nonce is claimed for a job. */
export interface Claim {
  readonly job: NewJob
  readonly jobId: string
  readonly authorizationId: string
  /** The job that holds the key when it is paid again; `null` for a new job, whose key must be free. */
  readonly holder: string | null
}

/** The idempotency key of a claim, as it was locked. */
export interface LockedKey {
  readonly isSameRequest: boolean
  /** The job that the key is bound to. */
  readonly holder: string | null
  /** Whether the nonce is claimed: the key is free for the claim, and no other payment has the nonce. */
  readonly isClaimed: boolean
}

/** What claims ask of their keys, and the columns of `authorizations`. */
const KEY_COLUMNS = { idempotency_key: 'text', asked_digest: 'text', asked_holder: 'uuid' }
const CLAIM_COLUMNS = {
  id: 'uuid',
  job_id: 'uuid',
  network: 'text',
  payer: 'text',
  nonce: 'numeric',
  authorized_maximum: 'numeric',
  deadline: 'numeric',
  signed: 'jsonb',
  permit_nonce: 'numeric',
  challenge_token_sha256: 'text',
}
const COLUMNS = { ...KEY_COLUMNS, ...CLAIM_COLUMNS }
const CLAIMED = Object.keys(CLAIM_COLUMNS).join(', ')
/** A deadline past the year 9999 is stored as the end of that year, for comparisons in SQL; `signed` has the exact one. */
const CLAIMED_VALUES = CLAIMED.replace('deadline', 'to_timestamp(LEAST(deadline, 253402300799)::double precision)')

const LOCK_KEYS: Record<LockedRows, string> = { skip: 'FOR UPDATE SKIP LOCKED', wait: 'FOR UPDATE' }
/** Serializes a payer's acceptances over all API processes, until the transaction ends. True when it is locked. */
const LOCK_PAYER: Record<LockedRows, (payer: string) => string> = {
  skip: (payer) => `pg_try_advisory_xact_lock(${payer})`,
  wait: (payer) => `pg_advisory_xact_lock(${payer}) IS NOT NULL`,
}
const PAYER = "hashtextextended('farebox payer ' || network || ' ' || payer, 0)"

/**
 * Locks the keys of payments and their payers, in this order, and claims the nonces of those whose keys are free for them:
 * one statement, in which a row that was waited for is locked and returned as it is then. What other tables held before the
 * wait is not read here. With `skip` it waits for nobody, and leaves out what another transaction has locked; with `wait`
 * the payments are of one payer. Returns the locked keys; a claim cannot be committed without its job.
 *
 * The payer is locked before the nonce is claimed, so that no claim waits for another one, which may wait for the lock
 * itself. The claim comes before the payment is judged, so that a used nonce is reported as such whatever its payer owes.
 */
export async function claimNonces(
  sql: Sql,
  claims: readonly Claim[],
  lockedRows: LockedRows,
): Promise<ReadonlyMap<string, LockedKey>> {
  // In one order of keys, and all of them before a payer (`ORDER BY` reads all), so that two statements that wait cannot
  // block each other.
  const ordered = claims.toSorted((one, other) => (one.job.idempotencyKey < other.job.idempotencyKey ? -1 : 1))
  // Not by `readRows`: others are sent behind it, and its error, the first one, has to be the first to reject.
  const { rows } = await sql.query<LockedKey & { idempotency_key: string }>({
    name: `claim_nonces${NAME_SUFFIX[lockedRows]}`,
    text: `WITH keys AS (
       SELECT asked.*, key.job_id AS holder, key.request_digest = asked_digest AS is_same
       FROM ${listed(...Object.values(COLUMNS))} AS asked (${Object.keys(COLUMNS).join(', ')}) CROSS JOIN LATERAL (
         SELECT job_id, request_digest FROM idempotency_keys
         WHERE idempotency_keys.idempotency_key = asked.idempotency_key ${LOCK_KEYS[lockedRows]}) AS key),
     free AS MATERIALIZED (
       SELECT *, ${LOCK_PAYER[lockedRows](PAYER)} AS is_locked FROM (
         SELECT * FROM keys WHERE is_same AND holder IS NOT DISTINCT FROM asked_holder ORDER BY idempotency_key) AS sorted),
     claimed AS (
       INSERT INTO authorizations (${CLAIMED}) SELECT ${CLAIMED_VALUES} FROM free WHERE is_locked
       ON CONFLICT DO NOTHING RETURNING id)
     SELECT idempotency_key, holder, is_same AS "isSameRequest", EXISTS (SELECT FROM claimed WHERE claimed.id = keys.id)
       AS "isClaimed" FROM keys`,
    values: columnsOf(ordered.map(valuesOf)),
  })
  return new Map(rows.map(({ idempotency_key: key, ...locked }) => [key, locked]))
}

function valuesOf({ jobId, authorizationId, holder, job }: Claim): readonly unknown[] {
  const { authorization, challengeTokenSha256, exposure } = job
  return [
    job.idempotencyKey,
    job.requestDigest,
    holder,
    authorizationId,
    jobId,
    authorization.network,
    authorization.payer,
    authorization.nonce.toString(),
    authorization.authorizedMaximum.toString(),
    authorization.deadline.toString(),
    storedAuthorization(authorization),
    exposure.needsPermit ? (authorization.gasSponsoring?.nonce.toString() ?? null) : null,
    challengeTokenSha256,
  ]
}

/** Why the nonce of a payment could not be claimed. */
export type UnclaimedNonce =
  | { readonly outcome: 'exists'; readonly jobId: string }
  | { readonly outcome: 'authorization_already_used' | 'permit_already_used' }

/** Returns why the nonce could not be claimed for the job. */
export async function findNonceHolder(
  sql: Sql,
  jobId: string,
  { network, payer, nonce }: Authorization,
): Promise<UnclaimedNonce> {
  const holder = await readFirst<{ job_id: string }>(sql, {
    name: 'find_nonce_claim',
    text: 'SELECT job_id FROM authorizations WHERE network = $1 AND payer = $2 AND nonce = $3',
    values: [network, payer, nonce.toString()],
  })
  if (!holder) return { outcome: 'permit_already_used' }
  return holder.job_id === jobId ? { outcome: 'exists', jobId } : { outcome: 'authorization_already_used' }
}
