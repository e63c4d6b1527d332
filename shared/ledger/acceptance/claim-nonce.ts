import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import { type Authorization, lastingPermitOf, storedAuthorization } from '#shared/payment/authorization.ts'
import { fitsFunds, mixesPermits, openTotal, settlingNonces } from '#shared/payment/exposure.ts'
import type { UnchargedBudget } from '#shared/payment/uncharged-budget.ts'
import { newId } from '#shared/runtime/new-id.ts'
import { columnsOf, listed } from '../listed.ts'
import type { Sql } from '../pool.ts'
import { readFirst, readRows } from '../read-rows.ts'
import { type Acceptance, AcceptanceRefused, type NewJob } from './acceptance.ts'
import { findExhaustedBudget } from './find-exhausted-budget.ts'
import { admitUncovered, refuseBeyondTrust } from './judge-new-payer.ts'
import type { NewPayers } from './new-payers.ts'
import { type ExposureQuestion, type PayerExposure, readExposure } from './read-exposure.ts'

/**
 * Serializes a payer's acceptances over all API processes, until the transaction ends. Taken before the nonce is claimed,
 * so that no claim waits for another one, which may wait for the lock itself.
 */
const payerLock = (
  lock: 'pg_advisory_xact_lock' | 'pg_try_advisory_xact_lock',
  [network, payer]: readonly [string, string],
) => `${lock}(hashtextextended('farebox payer ' || ${network} || ' ' || ${payer}, 0))`

export type NonceClaim =
  | Exclude<Acceptance, { outcome: 'accepted' | 'settles_again' }>
  | { outcome: 'claimed'; authorizationId: string; isNewPayer: boolean }

/** What limits the work that payers may cause without a charge, for one transaction. */
export interface UnchargedLimits {
  readonly budget: UnchargedBudget
  readonly newPayers: NewPayers
}

/** The idempotency key's row, as it was locked. */
interface LockedKey {
  readonly request_digest: string
  readonly job_id: string | null
}

const CLAIM_COLUMNS =
  'id, job_id, network, payer, nonce, authorized_maximum, deadline, signed, permit_nonce, challenge_token_sha256'
const CLAIM_TYPES = [
  'uuid',
  'uuid',
  'text',
  'text',
  'numeric',
  'numeric',
  'numeric',
  'jsonb',
  'numeric',
  'text',
] as const

/**
 * The values of `CLAIM_COLUMNS`, from columns or parameters. A deadline past the year 9999 is stored as the end of that
 * year, for comparisons in SQL; `signed` has the exact one.
 */
const descriptionOf = (column: (index: number) => string) =>
  CLAIM_TYPES.map((_, index) =>
    index === 6 ? `to_timestamp(LEAST(${column(index)}, 253402300799)::double precision)` : column(index),
  ).join(', ')
const CLAIM_PARAMETERS = descriptionOf((index) => `$${index + 1}::${CLAIM_TYPES[index]}`)
const CLAIMED_PAYER = ['$3', '$4'] as const

/** A nonce that is claimed for a new job. */
export interface NewClaim {
  readonly jobId: string
  readonly authorizationId: string
  readonly job: NewJob
}

/**
 * Locks the key and, when it is free for this request, waits for the payer's other acceptances and claims the nonce for
 * the new job: one statement, in this order. A row that was waited for is locked and returned as it is then, and the rest
 * depends on that; what other tables held before the wait is not read here. Cannot commit alone: the claim's job is
 * missing.
 */
export async function claimWithFreeKey(
  sql: Sql,
  claim: NewClaim,
): Promise<{ readonly key: LockedKey | null; readonly isClaimed: boolean }> {
  // Not by `readFirst`: others are sent behind it, and its error, the first one, has to be the first to reject.
  const { rows } = await sql.query<LockedKey & { is_claimed: boolean }>({
    name: 'claim_with_free_key',
    text: `WITH key AS (SELECT request_digest, job_id FROM idempotency_keys WHERE idempotency_key = $11 FOR UPDATE),
     payer_lock AS MATERIALIZED (
       SELECT ${payerLock('pg_advisory_xact_lock', CLAIMED_PAYER)} FROM key WHERE job_id IS NULL AND request_digest = $12),
     claimed AS (
       INSERT INTO authorizations (${CLAIM_COLUMNS}) SELECT ${CLAIM_PARAMETERS} FROM payer_lock
       ON CONFLICT DO NOTHING RETURNING id)
     SELECT request_digest, job_id, EXISTS (SELECT FROM claimed) AS is_claimed FROM key`,
    values: [...claimValues(claim), claim.job.idempotencyKey, claim.job.requestDigest],
  })
  const [key] = rows
  return { key: key ?? null, isClaimed: key?.is_claimed === true }
}

/**
 * Locks the keys that are free for their requests, and their payers, in one statement that waits for nobody: leaves out
 * what another transaction has locked, and payments whose nonce was claimed before. Returns the locked keys.
 */
export async function lockFreeKeys(sql: Sql, jobs: readonly NewJob[]): Promise<ReadonlySet<string>> {
  const columns = 'idempotency_key, request_digest, network, payer, nonce'
  const { rows } = await sql.query<{ idempotency_key: string }>({
    name: 'lock_free_keys',
    text: `WITH free AS (
       SELECT asked.idempotency_key, network, payer
       FROM ${listed('text', 'text', 'text', 'text', 'numeric')} AS asked (${columns}) CROSS JOIN LATERAL (
         SELECT FROM idempotency_keys AS key WHERE key.idempotency_key = asked.idempotency_key
           AND key.request_digest = asked.request_digest AND key.job_id IS NULL FOR UPDATE SKIP LOCKED) AS locked
       WHERE NOT EXISTS (SELECT FROM authorizations AS claimed WHERE claimed.network = asked.network
         AND claimed.payer = asked.payer AND claimed.nonce = asked.nonce)),
     payer_lock AS MATERIALIZED (
       SELECT idempotency_key, ${payerLock('pg_try_advisory_xact_lock', ['network', 'payer'])} AS is_locked FROM free)
     SELECT idempotency_key FROM payer_lock WHERE is_locked`,
    values: columnsOf(
      jobs.map(({ idempotencyKey, requestDigest, authorization: { network, payer, nonce } }) => [
        idempotencyKey,
        requestDigest,
        network,
        payer,
        nonce.toString(),
      ]),
    ),
  })
  return new Set(rows.map(({ idempotency_key }) => idempotency_key))
}

/** Claims the nonces of new jobs, under the locks of their keys and payers. Leaves out one that is claimed already. */
export async function claimNonces(sql: Sql, claims: readonly NewClaim[]): Promise<void> {
  await sql.query({
    name: 'claim_nonces',
    text: `INSERT INTO authorizations (${CLAIM_COLUMNS})
     SELECT ${descriptionOf((index) => CLAIM_COLUMNS.split(', ')[index] ?? '')}
     FROM ${listed(...CLAIM_TYPES)} AS asked (${CLAIM_COLUMNS}) ON CONFLICT DO NOTHING`,
    values: columnsOf(claims.map(claimValues)),
  })
}

/**
 * Claims the nonce for an existing job, if the payer can afford the payment in addition to their open work. The insert
 * comes before the exposure is judged, so that a used nonce is reported as such whatever the payer owes; the same
 * statement first waits for the payer's other acceptances, and the exposure is read behind it, in one round trip.
 * `limits` are for payments that cause new work: paying for a withheld result is always possible.
 */
export async function claimNonce(
  sql: Sql,
  jobId: string,
  job: NewJob,
  limits: UnchargedLimits | null,
): Promise<NonceClaim> {
  const authorizationId = newId()
  const [inserted, exposure] = await Promise.all([
    sql.query({
      name: 'claim_nonce',
      text: `WITH payer_lock AS MATERIALIZED (SELECT ${payerLock('pg_advisory_xact_lock', CLAIMED_PAYER)})
       INSERT INTO authorizations (${CLAIM_COLUMNS}) SELECT ${CLAIM_PARAMETERS} FROM payer_lock
       ON CONFLICT DO NOTHING`,
      values: claimValues({ jobId, authorizationId, job }),
    }),
    readPayerExposure(sql, job, limits),
  ])
  if (inserted.rowCount !== 1) return await findHolder(sql, jobId, job.authorization)
  const isNewPayer = await judgePayment(sql, jobId, job, exposure, limits)
  return { outcome: 'claimed', authorizationId, isNewPayer }
}

function claimValues({
  jobId,
  authorizationId,
  job: { authorization, challengeTokenSha256, exposure },
}: NewClaim): readonly unknown[] {
  return [
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

/** Returns why the nonce could not be claimed for the job. */
export async function findHolder(
  sql: Sql,
  jobId: string,
  { network, payer, nonce }: Authorization,
): Promise<Exclude<NonceClaim, { outcome: 'claimed' }>> {
  const holder = await readFirst<{ job_id: string }>(sql, {
    name: 'find_nonce_claim',
    text: 'SELECT job_id FROM authorizations WHERE network = $1 AND payer = $2 AND nonce = $3',
    values: [network, payer, nonce.toString()],
  })
  if (!holder) return { outcome: 'permit_already_used' }
  return holder.job_id === jobId ? { outcome: 'exists', jobId } : { outcome: 'authorization_already_used' }
}

/** Reads what `judgePayment` judges; must be sent behind the statement that locks the payer. */
export function readPayerExposure(sql: Sql, job: NewJob, limits: UnchargedLimits | null): Promise<PayerExposure> {
  return readExposure(sql, exposureQuestion(job, limits))
}

export function exposureQuestion(
  { authorization: { payer, authorizedMaximum: maximum }, exposure: { funds, verifiedMsAgo } }: NewJob,
  limits: UnchargedLimits | null,
): ExposureQuestion {
  const windowSeconds = limits?.budget.windowSeconds ?? 0
  const isKnown = limits === null || limits.newPayers.paidBy(payer).paid >= maximum
  return { payer, funds, verifiedMsAgo, before: null, windowSeconds, paidUpTo: isKnown ? null : maximum }
}

/** Throws `AcceptanceRefused` when the payment cannot be accepted. Returns whether what the payer paid does not cover it. */
export async function judgePayment(
  sql: Sql,
  jobId: string,
  job: NewJob,
  exposure: PayerExposure,
  limits: UnchargedLimits | null,
): Promise<boolean> {
  await refusePayer(sql, jobId, job, exposure, limits)
  return await refuseOverExposure(sql, job, exposure, limits)
}

/**
 * Throws `AcceptanceRefused` when the payer owes for earlier work or caused too much without a charge, whatever the
 * payment is. `jobId` is `null` for new work.
 */
export async function refusePayer(
  sql: Sql,
  jobId: string | null,
  { authorization: { payer } }: NewJob,
  exposure: PayerExposure,
  limits: UnchargedLimits | null,
): Promise<void> {
  const debt = exposure.owes ? await findDebt(sql, payer, jobId) : null
  if (debt) throw new AcceptanceRefused({ outcome: 'unpaid_debt', ...debt })
  const exhausted = limits && (await findExhaustedBudget(sql, payer, exposure.uncharged, limits.budget))
  if (exhausted) throw new AcceptanceRefused({ outcome: 'uncharged_work_limit', exhausted })
}

/**
 * Throws `AcceptanceRefused` when the payer has more open than the limits or their funds allow. Returns whether what the
 * payer paid does not cover the payment.
 */
export async function refuseOverExposure(
  sql: Sql,
  job: NewJob,
  exposure: PayerExposure,
  limits: UnchargedLimits | null,
): Promise<boolean> {
  const { maximumOpen, needsPermit, funds } = job.exposure
  const { authorizedMaximum: maximum } = job.authorization
  if (mixesPermits(needsPermit, exposure)) throw new AcceptanceRefused({ outcome: 'permit_already_used' })
  const total = openTotal(exposure, funds)
  if (total + maximum > maximumOpen && exposure.open.length > 0)
    throw new AcceptanceRefused({ outcome: 'exceeds_open_limit', openTotal: total })
  const isCovered = limits === null || (await refuseBeyondTrust(sql, job, exposure, limits.newPayers))
  if (!fitsFunds({ maximum, needsPermit, lasting: lastingPermitOf(job.authorization) }, exposure, funds))
    throw new AcceptanceRefused({
      outcome: 'exceeds_funds',
      openTotal: total,
      settlingNonces: settlingNonces(exposure),
    })
  if (isCovered) return false
  await admitUncovered(sql, job, limits.newPayers)
  return true
}

/**
 * Returns the payer's oldest completed call that is not paid for; `null` when `jobId` is one of them, as this payment
 * is for a withheld result.
 */
async function findDebt(
  sql: Sql,
  payer: string,
  jobId: string | null,
): Promise<{ idempotencyKey: string; chargeAmount: AtomicAmount } | null> {
  const debts = await readRows<{ id: string; idempotencyKey: string; chargeAmount: AtomicAmount }>(sql, {
    name: 'find_debt',
    text: `SELECT id, idempotency_key AS "idempotencyKey", charge_amount AS "chargeAmount" FROM jobs
     WHERE payer = $1 AND is_owed ORDER BY finished_at`,
    values: [payer],
  })
  const [oldest] = debts
  if (!oldest || debts.some(({ id }) => id === jobId)) return null
  const { idempotencyKey, chargeAmount } = oldest
  return { idempotencyKey, chargeAmount }
}
