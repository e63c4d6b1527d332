import type { Failure, LeasedJob, Written } from '#shared/jobs/job.ts'
import type { FoundSettlement } from '#shared/jobs/unknown-settlement.ts'
import type { GasSpent } from '#shared/payment/facilitator.ts'
import { insertUnchargedWork } from '../insert-uncharged-work.ts'
import { moveJob, type Parameter } from '../move-job.ts'
import type { Sql } from '../pool.ts'
import { insertUnknownSettlement } from '../unknown-settlements.ts'

/** When the payer owes the charge of a settlement that failed. */
export type Debt =
  /** Unless the authorization expired first, which is the service's fault. */
  | 'unless_expired'
  /** Unless it expired before the payment itself prevented its settlement; an expiry after that excuses nothing. */
  | 'unless_expired_before_block'
  /** If the payment itself prevents its settlement. */
  | 'if_blocked'
  | 'none'

/** Why a settlement failed. Without a block that proves it, its transactions are watched until there is one. */
export interface SettlementFailure extends Failure {
  readonly judgedAt?: JudgedBlock | null
  /** What reverted transactions cost a key of our own: uncharged work of the payer. */
  readonly gas?: GasSpent | null
}

/** A block whose state proves that a settlement cannot succeed, for as long as the chain contains it. */
export interface JudgedBlock {
  readonly number: bigint
  readonly hash: string
}

/** Whether the payer owes the charge, over the row of the job before it moves. */
const IS_OWED: Readonly<Record<Debt, string>> = {
  unless_expired: '(SELECT deadline > now() FROM authorizations WHERE id = authorization_id)',
  unless_expired_before_block:
    '(SELECT deadline > coalesce(payment_blocked_since, now()) FROM authorizations WHERE id = authorization_id)',
  if_blocked: 'payment_blocked_since IS NOT NULL',
  none: 'false',
}

/**
 * Moves generated or settling → settlement_failed: the result is withheld until a new authorization pays for it, and
 * the charge is the payer's debt as `debt` says.
 */
export function failSettlement(
  sql: Sql,
  job: LeasedJob,
  failure: SettlementFailure,
  debt: Debt = 'unless_expired',
): Promise<Written> {
  return moveJob(sql, job, 'settlement_failed', (parameter) => ({
    name: `fail_settlement_owed_${debt}${failure.gas ? '_with_gas' : ''}`,
    set: [
      `failure_code = ${parameter(failure.code)}`,
      `failure_reason = ${parameter(failure.reason)}`,
      'finished_at = now()',
      'lease_expires_at = NULL',
      `is_owed = ${IS_OWED[debt]}`,
    ],
    together: [
      endSettlement(job, 'reverted', parameter, failure),
      `released AS (
         UPDATE authorizations SET permit_released_at = now()
         FROM moved WHERE authorizations.id = ${parameter(job.authorizationId)})`,
      ...(failure.gas
        ? [insertUnchargedWork(job, { kind: 'reverted_settlement', amount: failure.gas.cost }, parameter)]
        : []),
    ],
  }))
}

/**
 * Moves an unfinished job → review: no rule explains what is on chain, so a person must decide. Nobody works on it
 * further, so its request is no longer kept. The settlement `found` on chain is recorded with it, for a refund.
 */
export function markForReview(
  sql: Sql,
  job: LeasedJob,
  reason: string,
  found: FoundSettlement | null = null,
): Promise<Written> {
  const { authorization, origin, id: jobId } = job
  return moveJob(sql, job, 'review', (parameter) => ({
    name: `mark_for_review${found ? '_with_settlement' : ''}`,
    set: [
      `failure_reason = ${parameter(reason)}`,
      'finished_at = now()',
      'lease_expires_at = NULL',
      'effective_request = NULL',
    ],
    together: [
      endSettlement(job, 'unproven', parameter),
      `ended AS (
         UPDATE upstream_attempts SET state = 'failed_ambiguous', reason = ${parameter(reason)}, finished_at = now()
         FROM moved WHERE authorization_id = ${parameter(job.authorizationId)} AND state = 'open')`,
      ...(found
        ? [
            `recorded AS (${insertUnknownSettlement(
              { authorization, found, idempotencyKey: null, requestId: origin.requestId, jobId },
              parameter,
              'FROM moved',
            )})`,
          ]
        : []),
    ],
  }))
}

function endSettlement(
  { authorizationId }: LeasedJob,
  state: 'reverted' | 'unproven',
  parameter: Parameter,
  { judgedAt, gas }: Pick<SettlementFailure, 'judgedAt' | 'gas'> = {},
): string {
  return `settlement AS (
    UPDATE settlements SET state = '${state}', finished_at = now(),
      block_number = ${parameter(judgedAt?.number.toString() ?? null)}::numeric, block_hash = ${parameter(judgedAt?.hash ?? null)},
      ${setGas(gas ?? null, parameter)}
    FROM moved WHERE authorization_id = ${parameter(authorizationId)} AND state = 'signed')`
}

/** Returns the assignments that store what a settlement's mined transactions cost one of our own keys. */
function setGas(gas: GasSpent | null, parameter: Parameter): string {
  const columns = { gas_used: gas?.gasUsed, effective_gas_price: gas?.effectiveGasPrice, gas_cost: gas?.cost }
  return Object.entries(columns)
    .map(([column, value]) => {
      const own = `CASE WHEN settled_by = 'own_key' THEN ${parameter(value?.toString() ?? null)}::numeric END`
      return `${column} = ${own}`
    })
    .join(', ')
}
