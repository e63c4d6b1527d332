import { randomUUID } from 'node:crypto'
import type { Acceptance, ExposureTerms, NewJob } from '#shared/jobs/admission-store.ts'
import { type AtomicAmount, atomicAmount } from '#shared/money/atomic-amount.ts'
import { type Authorization, storedAuthorization } from '#shared/payment/authorization.ts'
import { fitsFunds, mixesPermits, openTotal, settlingNonces } from '#shared/payment/exposure.ts'
import type { Sql } from '../pool.ts'
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
  | { outcome: 'claimed'; authorizationId: string }

/**
 * Claims the nonce, if the payer can afford the payment in addition to their open work. The insert comes first, so that
 * a used nonce is reported as such whatever the payer owes; the same statement then waits for the payer's other
 * acceptances. A deadline past the year 9999 is stored as the end of that year, for comparisons in SQL; `signed` has
 * the exact one.
 */
export async function claimNonce(sql: Sql, jobId: string, { authorization, exposure }: NewJob): Promise<NonceClaim> {
  const authorizationId = randomUUID()
  const inserted = await sql.query({
    name: 'claim_nonce',
    text: `WITH claimed AS (
       INSERT INTO authorizations
         (id, job_id, network, payer, nonce, authorized_maximum, deadline, signed, permit_nonce)
       VALUES ($1, $2, $3, $4, $5, $6, to_timestamp(LEAST($7::numeric, 253402300799)::double precision), $8, $9)
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
    ],
  })
  if (inserted.rowCount === 1) {
    await refuseOverExposure(sql, jobId, authorization, exposure)
    return { outcome: 'claimed', authorizationId }
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
 * Throws `AcceptanceRefused` when the payer owes for earlier work, or has more open than the limit or their funds
 * allow.
 */
async function refuseOverExposure(
  sql: Sql,
  jobId: string,
  { payer, authorizedMaximum: maximum }: Authorization,
  { maximumOpen, needsPermit, verifiedMsAgo, funds }: ExposureTerms,
): Promise<void> {
  const debt = await findDebt(sql, payer, jobId)
  if (debt) throw new AcceptanceRefused({ outcome: 'unpaid_debt', ...debt })
  const exposure = await readExposure(sql, payer, { funds, verifiedMsAgo, aheadOf: null })
  if (mixesPermits(needsPermit, exposure)) throw new AcceptanceRefused({ outcome: 'permit_already_used' })
  const total = openTotal(exposure, funds)
  if (total + maximum > maximumOpen && exposure.open.length > 0)
    throw new AcceptanceRefused({ outcome: 'exceeds_open_limit', openTotal: total })
  if (fitsFunds({ maximum, needsPermit }, exposure, funds)) return
  throw new AcceptanceRefused({ outcome: 'exceeds_funds', openTotal: total, settlingNonces: settlingNonces(exposure) })
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
