import type { UnchargedKind } from '#shared/payment/uncharged-budget.ts'
import type { Sql } from '../pool.ts'
import type { LedgerPeriod } from './period.ts'
import { type CountAndSum, countAndSum } from './revenue.ts'

/**
 * Provider calls of the period that vendors may have billed without a charge to anyone, in the only measure the ledger
 * has: the price that the caller would have paid. The vendor's invoice has the actual cost.
 */
export interface AbsorbedCost {
  /** Finished work whose charge could not be settled, at that charge. */
  readonly withheldCharges: CountAndSum
  /** Calls with an unknown outcome, at the maximum authorized for them: an upper bound. */
  readonly ambiguousAttempts: CountAndSum
  /** Calls that vendors worked on without returning usable output, at the maximum authorized for them, or by usage. */
  readonly emptyOutputs: CountAndSum
  /** Requests that were rejected for what they contain, at the minimum charge. */
  readonly rejectedRequests: CountAndSum
  /** Finished work that was repeated later, at the maximum authorized for it: an upper bound. */
  readonly replacedResults: CountAndSum
  /** The gas of settlements that reverted. */
  readonly revertedSettlements: CountAndSum
}

export async function readAbsorbedCost(sql: Sql, period: LedgerPeriod): Promise<AbsorbedCost> {
  return {
    withheldCharges: await readWithheldCharges(sql, period),
    ambiguousAttempts: await readAmbiguousAttempts(sql, period),
    emptyOutputs: await readUnchargedKind(sql, period, 'empty_output'),
    rejectedRequests: await readUnchargedKind(sql, period, 'rejected_request'),
    replacedResults: await readReplacedResults(sql, period),
    revertedSettlements: await readUnchargedKind(sql, period, 'reverted_settlement'),
  }
}

async function readWithheldCharges(sql: Sql, { from, to }: LedgerPeriod): Promise<CountAndSum> {
  const { rows } = await sql.query<{ count: number; total: string }>({
    name: 'read_withheld_charges',
    text: `SELECT count(*)::int AS count, COALESCE(sum(charge_amount), 0) AS total
     FROM jobs WHERE state = 'settlement_failed' AND finished_at >= $1 AND finished_at < $2`,
    values: [from, to],
  })
  return countAndSum(rows)
}

/** Reads attempts by their own authorization, since a job may be reopened later at another price. */
async function readAmbiguousAttempts(sql: Sql, { from, to }: LedgerPeriod): Promise<CountAndSum> {
  const { rows } = await sql.query<{ count: number; total: string }>({
    name: 'read_ambiguous_attempts',
    text: `SELECT count(*)::int AS count, COALESCE(sum(authorized_maximum), 0) AS total
     FROM upstream_attempts JOIN authorizations ON authorizations.id = authorization_id
     WHERE state = 'failed_ambiguous' AND finished_at >= $1 AND finished_at < $2`,
    values: [from, to],
  })
  return countAndSum(rows)
}

async function readUnchargedKind(sql: Sql, { from, to }: LedgerPeriod, kind: UnchargedKind): Promise<CountAndSum> {
  const { rows } = await sql.query<{ count: number; total: string }>({
    name: 'read_uncharged_kind',
    text: `SELECT count(*)::int AS count, COALESCE(sum(amount), 0) AS total
     FROM uncharged_work WHERE kind = $3 AND created_at >= $1 AND created_at < $2`,
    values: [from, to, kind],
  })
  return countAndSum(rows)
}

async function readReplacedResults(sql: Sql, { from, to }: LedgerPeriod): Promise<CountAndSum> {
  const { rows } = await sql.query<{ count: number; total: string }>({
    name: 'read_replaced_results',
    text: `SELECT count(*)::int AS count, COALESCE(sum(authorized_maximum), 0) AS total
     FROM upstream_attempts AS earlier JOIN authorizations ON authorizations.id = authorization_id
     WHERE state = 'succeeded' AND finished_at >= $1 AND finished_at < $2
       AND EXISTS (SELECT 1 FROM upstream_attempts AS later WHERE later.job_id = earlier.job_id
         AND later.state = 'succeeded' AND later.started_at > earlier.started_at)`,
    values: [from, to],
  })
  return countAndSum(rows)
}
