import { randomUUID } from 'node:crypto'
import type { Acceptance, ExposureTerms, NewJob } from '#shared/jobs/admission-store.ts'
import { type AtomicAmount, atomicAmount } from '#shared/money/atomic-amount.ts'
import { type Authorization, storedAuthorization } from '#shared/payment/authorization.ts'
import { fitsFunds, mixesPermits, openTotal, settlingNonces } from '#shared/payment/exposure.ts'
import type { UnchargedBudget } from '#shared/payment/uncharged-budget.ts'
import type { Sql } from '../pool.ts'
import { findExhaustedBudget } from './find-exhausted-budget.ts'
import type { NewPayers } from './new-payers.ts'
import { readExposure } from './read-exposure.ts'

/** Serializes a payer's acceptances over all API processes, until the transaction ends. */
const PAYER_LOCK = "pg_advisory_xact_lock(hashtextextended('farebox payer ' || network || ' ' || payer, 0))"

/** Thrown to roll back the claim of a payment that cannot be accepted; never leaves this folder. */
export class AcceptanceRefused extends Error {
  readonly acceptance: Acceptance

  constructor(acceptance: Acceptance) {
    super(acceptance.outcome)
    this.acceptance = acceptance
  }
}

type NonceClaim =
  | Exclude<Acceptance, { outcome: 'accepted' | 'settles_again' }>
  | { outcome: 'claimed'; authorizationId: string; isNewPayer: boolean }

/** What limits the work that payers may cause without a charge. */
export interface UnchargedLimits {
  readonly budget: UnchargedBudget
  readonly newPayers: NewPayers
}

/**
 * Claims the nonce, if the payer can afford the payment in addition to their open work. The insert comes first, so that
 * a used nonce is reported as such whatever the payer owes; the same statement then waits for the payer's other
 * acceptances. A deadline past the year 9999 is stored as the end of that year, for comparisons in SQL; `signed` has
 * the exact one. `limits` are for payments that cause new work: paying for a withheld result is always possible.
 */
export async function claimNonce(
  sql: Sql,
  jobId: string,
  { authorization, challengeTokenSha256, exposure }: NewJob,
  limits: UnchargedLimits | null,
): Promise<NonceClaim> {
  const authorizationId = randomUUID()
  const inserted = await sql.query({
    name: 'claim_nonce',
    text: `WITH claimed AS (
       INSERT INTO authorizations
         (id, job_id, network, payer, nonce, authorized_maximum, deadline, signed, permit_nonce, challenge_token_sha256)
       VALUES ($1, $2, $3, $4, $5, $6, to_timestamp(LEAST($7::numeric, 253402300799)::double precision), $8, $9, $10)
       ON CONFLICT DO NOTHING RETURNING network, payer)
     SELECT ${PAYER_LOCK} FROM claimed`,
    values: [
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
    ],
  })
  if (inserted.rowCount === 1) {
    const isNewPayer = await refuseOverExposure(sql, jobId, authorization, exposure, limits)
    return { outcome: 'claimed', authorizationId, isNewPayer }
  }
  const { rows } = await sql.query<{ job_id: string }>({
    name: 'find_nonce_claim',
    text: 'SELECT job_id FROM authorizations WHERE network = $1 AND payer = $2 AND nonce = $3',
    values: [authorization.network, authorization.payer, authorization.nonce.toString()],
  })
  const [holder] = rows
  if (!holder) return { outcome: 'permit_already_used' }
  return holder.job_id === jobId ? { outcome: 'exists', jobId } : { outcome: 'authorization_already_used' }
}

/**
 * Throws `AcceptanceRefused` when the payer owes for earlier work, caused too much without a charge, or has more open
 * than the limits or their funds allow. Returns whether the payer is new.
 */
async function refuseOverExposure(
  sql: Sql,
  jobId: string,
  { payer, authorizedMaximum: maximum }: Authorization,
  { maximumOpen, needsPermit, verifiedMsAgo, funds }: ExposureTerms,
  limits: UnchargedLimits | null,
): Promise<boolean> {
  const windowSeconds = limits?.budget.windowSeconds ?? 0
  const exposure = await readExposure(sql, payer, { funds, verifiedMsAgo, aheadOf: null, windowSeconds })
  const debt = exposure.owes ? await findDebt(sql, payer, jobId) : null
  if (debt) throw new AcceptanceRefused({ outcome: 'unpaid_debt', ...debt })
  const exhausted = limits && (await findExhaustedBudget(sql, payer, exposure.uncharged, limits.budget))
  if (exhausted) throw new AcceptanceRefused({ outcome: 'uncharged_work_limit', exhausted })
  if (mixesPermits(needsPermit, exposure)) throw new AcceptanceRefused({ outcome: 'permit_already_used' })
  const total = openTotal(exposure, funds)
  if (total + maximum > maximumOpen && exposure.open.length > 0)
    throw new AcceptanceRefused({ outcome: 'exceeds_open_limit', openTotal: total })
  if (!fitsFunds({ maximum, needsPermit }, exposure, funds))
    throw new AcceptanceRefused({
      outcome: 'exceeds_funds',
      openTotal: total,
      settlingNonces: settlingNonces(exposure),
    })
  return limits !== null && (await reserveIfNew(sql, payer, maximum, limits.newPayers))
}

/**
 * Returns whether the payer is new. Throws `AcceptanceRefused` when the payment of a new one exceeds their shared
 * limit. Called last, since a reservation is not returned.
 */
async function reserveIfNew(sql: Sql, payer: string, maximum: AtomicAmount, newPayers: NewPayers): Promise<boolean> {
  if (newPayers.isEstablished(payer)) return false
  if (!newPayers.recordSettled(payer, await readSettled(sql, payer))) return false
  const retryAfterSeconds = await newPayers.reserve(sql, maximum)
  if (retryAfterSeconds !== null) throw new AcceptanceRefused({ outcome: 'new_payer_limit', retryAfterSeconds })
  return true
}

/** Returns the sum of all settled charges of the payer. */
async function readSettled(sql: Sql, payer: string): Promise<AtomicAmount> {
  const { rows } = await sql.query<{ settled: string }>({
    name: 'read_settled',
    text: `SELECT coalesce(sum(charge_amount), 0) AS settled FROM settlements WHERE payer = $1 AND state = 'confirmed'`,
    values: [payer],
  })
  return atomicAmount(BigInt(rows[0]?.settled ?? 0))
}

/**
 * Returns the payer's oldest completed call that is not paid for; `null` when `jobId` is one of them, as this payment
 * is for a withheld result.
 */
async function findDebt(
  sql: Sql,
  payer: string,
  jobId: string,
): Promise<{ idempotencyKey: string; chargeAmount: AtomicAmount } | null> {
  const { rows } = await sql.query<{ id: string; idempotency_key: string; charge_amount: string }>({
    name: 'find_debt',
    text: `SELECT id, idempotency_key, charge_amount FROM jobs
     WHERE payer = $1 AND is_owed ORDER BY finished_at`,
    values: [payer],
  })
  const [oldest] = rows
  if (!oldest || rows.some(({ id }) => id === jobId)) return null
  return { idempotencyKey: oldest.idempotency_key, chargeAmount: atomicAmount(BigInt(oldest.charge_amount)) }
}
