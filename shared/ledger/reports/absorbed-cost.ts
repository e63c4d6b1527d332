import type { UnchargedKind } from '#shared/payment/uncharged-budget.ts'
import type { Sql } from '../pool.ts'
import { readOne, readRows } from '../read-rows.ts'
import { amountsOfPayers, type PayerAmountRow, type PayerAmounts, payerAmounts, SHOWN_PAYERS } from './open-work.ts'
import type { LedgerPeriod } from './period.ts'
import { type CountAndSum, countAndSum } from './revenue.ts'

/** The period's work that ended without a charge. */
export interface UnchargedWorkReport {
  /** Largest first. */
  readonly byKind: readonly (CountAndSum & { readonly kind: UnchargedKind })[]
  readonly byPayer: PayerAmounts
}

export async function readUnchargedWork(sql: Sql, period: LedgerPeriod): Promise<UnchargedWorkReport> {
  return {
    byKind: await readByKind(sql, period),
    byPayer: await readByPayer(sql, period),
  }
}

function readByKind(sql: Sql, { from, to }: LedgerPeriod): Promise<UnchargedWorkReport['byKind']> {
  return readRows(sql, {
    name: 'read_uncharged_by_kind',
    text: `SELECT kind, ${countAndSum('amount')} FROM uncharged_work
     WHERE created_at >= $1 AND created_at < $2 GROUP BY kind ORDER BY sum(amount) DESC, kind`,
    values: [from, to],
  })
}

async function readByPayer(sql: Sql, { from, to }: LedgerPeriod): Promise<PayerAmounts> {
  const rows = await readRows<PayerAmountRow>(sql, {
    name: 'read_uncharged_by_payer',
    text: `SELECT ${amountsOfPayers('amount')}
     FROM uncharged_work WHERE created_at >= $1 AND created_at < $2
     GROUP BY payer ORDER BY "totalAtomic" DESC, payer LIMIT $3`,
    values: [from, to, SHOWN_PAYERS],
  })
  return payerAmounts(rows)
}

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

function readWithheldCharges(sql: Sql, { from, to }: LedgerPeriod): Promise<CountAndSum> {
  return readOne<CountAndSum>(sql, {
    name: 'read_withheld_charges',
    text: `SELECT ${countAndSum('charge_amount')}
     FROM jobs WHERE state = 'settlement_failed' AND finished_at >= $1 AND finished_at < $2`,
    values: [from, to],
  })
}

/** Reads attempts by their own authorization, since a job may be reopened later at another price. */
function readAmbiguousAttempts(sql: Sql, { from, to }: LedgerPeriod): Promise<CountAndSum> {
  return readOne<CountAndSum>(sql, {
    name: 'read_ambiguous_attempts',
    text: `SELECT ${countAndSum('authorized_maximum')}
     FROM upstream_attempts JOIN authorizations ON authorizations.id = authorization_id
     WHERE state = 'failed_ambiguous' AND finished_at >= $1 AND finished_at < $2`,
    values: [from, to],
  })
}

function readUnchargedKind(sql: Sql, { from, to }: LedgerPeriod, kind: UnchargedKind): Promise<CountAndSum> {
  return readOne<CountAndSum>(sql, {
    name: 'read_uncharged_kind',
    text: `SELECT ${countAndSum('amount')}
     FROM uncharged_work WHERE kind = $3 AND created_at >= $1 AND created_at < $2`,
    values: [from, to, kind],
  })
}

function readReplacedResults(sql: Sql, { from, to }: LedgerPeriod): Promise<CountAndSum> {
  return readOne<CountAndSum>(sql, {
    name: 'read_replaced_results',
    text: `SELECT ${countAndSum('authorized_maximum')}
     FROM upstream_attempts AS earlier JOIN authorizations ON authorizations.id = authorization_id
     WHERE state = 'succeeded' AND finished_at >= $1 AND finished_at < $2
       AND EXISTS (SELECT 1 FROM upstream_attempts AS later WHERE later.job_id = earlier.job_id
         AND later.state = 'succeeded' AND later.started_at > earlier.started_at)`,
    values: [from, to],
  })
}

export interface FailureCount {
  readonly state: 'failed' | 'settlement_failed'
  readonly code: string
  readonly count: number
}

/** Counts the jobs that failed in the period and are still failed by their error code, most frequent first. */
export async function readUnchargedFailures(sql: Sql, { from, to }: LedgerPeriod): Promise<readonly FailureCount[]> {
  return await readRows<FailureCount>(sql, {
    name: 'read_uncharged_failures',
    text: `SELECT state, failure_code AS code, count(*)::int AS count
     FROM jobs WHERE state IN ('failed', 'settlement_failed') AND finished_at >= $1 AND finished_at < $2
     GROUP BY state, failure_code ORDER BY count(*) DESC, failure_code, state`,
    values: [from, to],
  })
}
