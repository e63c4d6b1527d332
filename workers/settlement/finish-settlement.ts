import { z } from 'zod'
import { canonicalJson, sha256Hex } from '#shared/digests/canonical-json.ts'
import type { LeasedJob, SealedResult } from '#shared/jobs/job.ts'
import type { JudgedBlock } from '#shared/ledger/settlement/end-settlement.ts'
import type { FailedSettlement } from '#shared/ledger/settlement/failed-settlements.ts'
import type { SettledAt } from '#shared/ledger/settlement/finality.ts'
import { SHORTEST_MEDIA_LIFE_SECONDS } from '#shared/media/retention.ts'
import { atomicFromDollars, dollarsFromAtomic } from '#shared/money/atomic-amount.ts'
import { operationById } from '#shared/operations/registry.ts'
import type { Confirmation, GasSpent } from '#shared/payment/facilitator.ts'
import { type Receipt, receiptSchema } from '#shared/payment/receipt.ts'
import { chargeBoundsSchema } from '#shared/pricing/bounded-charge.ts'
import { writeCalculation } from '#shared/pricing/calculation.ts'
import { newId } from '#shared/runtime/new-id.ts'
import { finished, type StepOutcome } from '../job/step-outcome.ts'
import type { SettlementDependencies } from './dependencies.ts'

/** A transaction that is proved to have settled the charge. */
export type MinedTransfer = Omit<Extract<Confirmation, { outcome: 'confirmed' }>, 'gas'> & {
  readonly hash: `0x${string}`
  readonly gas?: GasSpent
}

/** Moves settling → completed: stores the receipt and releases the result. */
export async function completeSettlement(
  { settlementStore, receiptSecretId, now }: SettlementDependencies,
  job: LeasedJob,
  settlementId: string,
  { hash, blockNumber, blockHash, blockTimestamp, gas }: MinedTransfer,
): Promise<StepOutcome> {
  const sealed = requireSealed(job)
  const { network, payer } = job.authorization
  const written = await settlementStore.completeJob(job, {
    settlementId,
    transactionHash: hash,
    blockNumber,
    blockHash,
    ...(gas && { gas }),
    receipt: buildReceipt(job, sealed, { hash, blockNumber, settledAt: blockTimestamp, issuedAt: now() }),
    receiptSecretId,
    paymentResponse: { success: true, transaction: hash, network, payer, amount: sealed.chargeAmount.toString() },
  })
  return finished(written)
}

/**
 * Moves generated or settling → settlement_failed: the charge cannot be settled, so the result is withheld. `judgedAt`
 * is the block that proves it, `gas` what reverted transactions cost.
 */
export async function failSettlement(
  { settlementStore }: SettlementDependencies,
  job: LeasedJob,
  reason: string,
  judgedAt: JudgedBlock | null = null,
  gas: GasSpent | null = null,
): Promise<StepOutcome> {
  return finished(await settlementStore.failSettlement(job, { code: 'settlement_failed', reason, judgedAt, gas }))
}

/** Returns whether the hosted media of the result would be gone before its payer could fetch them. */
export function isMediaExpiring({ now }: Pick<SettlementDependencies, 'now'>, { mediaExpireAt }: LeasedJob): boolean {
  const shortestMs = SHORTEST_MEDIA_LIFE_SECONDS.whenCharged * 1000
  return mediaExpireAt !== null && mediaExpireAt.getTime() - now().getTime() < shortestMs
}

/**
 * Moves generated or settling → settlement_failed, for expiring media and while no transaction can move money: a fresh
 * authorization pays for new work. Their payer owes nothing for them, unless it is the payment that could not be settled.
 */
export async function withholdExpiring(
  { settlementStore }: SettlementDependencies,
  job: LeasedJob,
  judgedAt: JudgedBlock | null = null,
): Promise<StepOutcome> {
  const failure = { code: 'settlement_failed', reason: EXPIRING, judgedAt } as const
  return finished(await settlementStore.failSettlement(job, failure, 'if_blocked'))
}

export const EXPIRING = 'the hosted media expire before they can be charged'

/** Returns the sealed result, which every job from `generated` on has. */
export function requireSealed({ id, state, sealed }: LeasedJob): SealedResult {
  if (!sealed) throw new Error(`job ${id} is ${state} without a result`)
  return sealed
}

const VERSION_DIGITS = 16

const termsSchema = z.record(z.string(), z.unknown())

/** Builds the receipt, with which a payer can recompute the charge and find it on chain. */
export function buildReceipt(
  job: LeasedJob,
  sealed: SealedResult,
  settled: { hash: string; blockNumber: bigint; settledAt: Date; issuedAt: Date },
): Receipt {
  const { authorization } = job
  const unitPrices = pricesOf(job.terms)
  return receiptSchema.parse({
    id: newId(),
    object: 'receipt',
    operation: job.operation,
    model: job.publicModel,
    usage: sealed.usage,
    unit_prices: unitPrices,
    catalog_version: job.catalogVersion,
    // Covers the prices alone: catalogs that differ in other ways, and all requests, share a price version.
    price_version: `price-${sha256Hex(canonicalJson(unitPrices)).slice(0, VERSION_DIGITS)}`,
    quoted_maximum_atomic: job.quotedMaximum.toString(),
    authorized_maximum_atomic: authorization.authorizedMaximum.toString(),
    charge_atomic: sealed.chargeAmount.toString(),
    charge_usdc: dollarsFromAtomic(sealed.chargeAmount),
    calculation: calculationOf(job, sealed),
    currency: 'USDC',
    payer: authorization.payer,
    pay_to: authorization.payTo,
    network: authorization.network,
    asset: authorization.asset,
    transaction: settled.hash,
    block_number: settled.blockNumber.toString(),
    request_digest: job.requestDigest,
    result_digest: sealed.resultDigest,
    accepted_at: job.acceptedAt.toISOString(),
    settled_at: settled.settledAt.toISOString(),
    issued_at: settled.issuedAt.toISOString(),
  } satisfies Receipt)
}

/**
 * Returns the prices and bounds of the terms, without the quantities that the quote proved for this request: those are
 * `at_most` of the calculation's lines.
 */
function pricesOf(terms: LeasedJob['terms']): Record<string, string> {
  const entries = Object.entries(termsSchema.parse(terms))
  return Object.fromEntries(entries.filter((entry): entry is [string, string] => typeof entry[1] === 'string'))
}

/**
 * Returns the calculation of the charge. Never throws, since money has moved: a job that an earlier version priced by
 * other fields gets a receipt without it. The quoted maximum includes the published bound; a later authorization of the
 * same job may be lower.
 */
function calculationOf(
  { operation: id, terms, quotedMaximum, authorization: { authorizedMaximum } }: LeasedJob,
  sealed: SealedResult,
): Receipt['calculation'] {
  const operation = operationById(id)
  const usage = operation.usageSchema.safeParse(sealed.usage)
  const priced = operation.termsSchema.safeParse(terms)
  const bounds = chargeBoundsSchema.safeParse(terms)
  if (!usage.success || !priced.success || !bounds.success) return undefined
  const { minimum_charge_usd: minimum, gas_minimum_charge_usd: gasMinimum } = bounds.data
  return writeCalculation(operation.pricedQuantities(usage.data, priced.data), {
    minimum: atomicFromDollars(minimum),
    gasMinimum: gasMinimum === undefined ? null : atomicFromDollars(gasMinimum),
    maximum: quotedMaximum < authorizedMaximum ? quotedMaximum : authorizedMaximum,
  })
}

/** Handles a failed settlement that charged the payer after a reorganization. */
export async function reopenSettlement(
  { settlementStore, logger }: Pick<SettlementDependencies, 'settlementStore' | 'logger'>,
  { settlementId, jobId }: Pick<FailedSettlement, 'settlementId' | 'jobId'>,
  settledAt: SettledAt,
): Promise<void> {
  switch (await settlementStore.reopenSettlement(settlementId, settledAt)) {
    case 'reopened':
      logger.warn('a failed settlement charged the payer after a reorganization; its job is completed', { jobId })
      break
    case 'surplus':
      logger.error('a payer was charged without need after a reorganization; refund them', { jobId })
      break
    // The next step of the job looks it up; until then it is judged again.
    case 'open':
      await settlementStore.judgeFailed(settlementId, null)
  }
}
