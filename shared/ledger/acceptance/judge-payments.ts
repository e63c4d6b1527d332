import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import { lastingPermitOf } from '#shared/payment/authorization.ts'
import { fitsFunds, mixesPermits, type OpenPayment, openTotal, settlingNonces } from '#shared/payment/exposure.ts'
import type { UnchargedBudget } from '#shared/payment/uncharged-budget.ts'
import type { Sql } from '../pool.ts'
import { readRows } from '../read-rows.ts'
import { AcceptanceRefused, type NewJob } from './acceptance.ts'
import { findExhaustedBudget } from './find-exhausted-budget.ts'
import { admitUncovered, refuseBeyondTrust } from './judge-new-payer.ts'
import type { NewPayers } from './new-payers.ts'
import type { ExposureQuestion, PayerExposure } from './read-exposure.ts'

/** What limits the work that payers may cause without a charge, for one transaction. */
export interface UnchargedLimits {
  readonly budget: UnchargedBudget
  readonly newPayers: NewPayers
}

/** Returns what has to be read to judge a payment. `limits` are for payments that cause new work. */
export function exposureQuestion(
  { authorization: { payer, authorizedMaximum: maximum }, exposure: { funds, verifiedMsAgo } }: NewJob,
  limits: UnchargedLimits | null,
): ExposureQuestion {
  const windowSeconds = limits?.budget.windowSeconds ?? 0
  const isKnown = limits === null || limits.newPayers.paidBy(payer).paid >= maximum
  return { payer, funds, verifiedMsAgo, before: null, windowSeconds, paidUpTo: isKnown ? null : maximum }
}

/** A payment whose nonce is claimed, and what its payer has open without it. */
export interface ClaimedPayment {
  readonly job: NewJob
  readonly exposure: PayerExposure
  /** The job that the payment is for, when that exists: its debt is no reason to refuse it. */
  readonly holder: string | null
}

/** Payments of one payer that are accepted, and why the one after them is not. */
export interface Judgment<Payment extends ClaimedPayment> {
  readonly accepted: readonly (Payment & { readonly isNewPayer: boolean })[]
  readonly refusal: AcceptanceRefused | null
}

/**
 * Judges payments of one payer in their order, under the lock of the payer, each with those that were accepted before it,
 * which are not written yet. The first one that has to be refused ends it. Without `limits`, which are for new work, paying
 * for a withheld result is always possible. `isNewPayer`: what the payer has paid does not cover the payment.
 */
export async function judgePayments<Payment extends ClaimedPayment>(
  sql: Sql,
  payments: readonly Payment[],
  limits: UnchargedLimits | null,
): Promise<Judgment<Payment>> {
  const accepted: (Payment & { readonly isNewPayer: boolean })[] = []
  try {
    for (const payment of payments) {
      if (accepted.length === 0) await refusePayer(sql, payment, limits)
      const open = [...payment.exposure.open, ...accepted.map(openPaymentOf)]
      const isNewPayer = await refuseOverExposure(sql, payment.job, { ...payment.exposure, open }, limits)
      accepted.push({ ...payment, isNewPayer })
    }
  } catch (error) {
    if (!(error instanceof AcceptanceRefused)) throw error
    return { accepted, refusal: error }
  }
  return { accepted, refusal: null }
}

/** Throws `AcceptanceRefused` when the payer owes for earlier work or caused too much without a charge. */
async function refusePayer(
  sql: Sql,
  { job: { authorization }, exposure, holder }: ClaimedPayment,
  limits: UnchargedLimits | null,
): Promise<void> {
  const debt = exposure.owes ? await findDebt(sql, authorization.payer, holder) : null
  if (debt) throw new AcceptanceRefused({ outcome: 'unpaid_debt', ...debt })
  const exhausted = limits && (await findExhaustedBudget(sql, authorization.payer, exposure.uncharged, limits.budget))
  if (exhausted) throw new AcceptanceRefused({ outcome: 'uncharged_work_limit', exhausted })
}

/**
 * Throws `AcceptanceRefused` when the payer has more open than the limits or their funds allow. Returns whether what the
 * payer paid does not cover the payment.
 */
async function refuseOverExposure(
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
 * Returns the payer's oldest completed call that is not paid for; `null` when the job that is paid for is one of them, as
 * this payment is for a withheld result.
 */
async function findDebt(
  sql: Sql,
  payer: string,
  paidFor: string | null,
): Promise<{ idempotencyKey: string; chargeAmount: AtomicAmount } | null> {
  const debts = await readRows<{ id: string; idempotencyKey: string; chargeAmount: AtomicAmount }>(sql, {
    name: 'find_debt',
    text: `SELECT id, idempotency_key AS "idempotencyKey", charge_amount AS "chargeAmount" FROM jobs
     WHERE payer = $1 AND is_owed ORDER BY finished_at`,
    values: [payer],
  })
  const [oldest] = debts
  if (!oldest || debts.some(({ id }) => id === paidFor)) return null
  const { idempotencyKey, chargeAmount } = oldest
  return { idempotencyKey, chargeAmount }
}

function openPaymentOf({ job: { authorization, exposure } }: ClaimedPayment): OpenPayment {
  return {
    nonce: authorization.nonce,
    amount: authorization.authorizedMaximum,
    byPermit: exposure.needsPermit && authorization.gasSponsoring !== null,
    lasting: lastingPermitOf(authorization),
    isSettling: false,
  }
}
