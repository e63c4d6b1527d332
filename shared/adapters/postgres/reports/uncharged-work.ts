import type { UnchargedKind } from '#shared/payment/uncharged-budget.ts'
import type { Sql } from '../pool.ts'
import { type PayerAmountRow, type PayerAmounts, payerAmounts, SHOWN_PAYERS } from './payer-amounts.ts'
import type { LedgerPeriod } from './period.ts'
import { type CountAndSum, countAndSum } from './revenue.ts'

/** The period's work that ended without a charge. */
export interface UnchargedWorkReport {
  /** Largest first. */
  readonly byKind: readonly (CountAndSum & { readonly kind: UnchargedKind })[]
  readonly byPayer: PayerAmounts
  /**
   * Calls without usable output or with an unknown outcome that have no record of uncharged work, at their authorized
   * maximum. Only processes of a version before the record leave any.
   */
  readonly unrecordedAttempts: CountAndSum
}

export async function readUnchargedWork(sql: Sql, period: LedgerPeriod): Promise<UnchargedWorkReport> {
  return {
    byKind: await readByKind(sql, period),
    byPayer: await readByPayer(sql, period),
    unrecordedAttempts: await readUnrecordedAttempts(sql, period),
  }
}

async function readByKind(sql: Sql, { from, to }: LedgerPeriod): Promise<UnchargedWorkReport['byKind']> {
  const { rows } = await sql.query<{ kind: UnchargedKind; count: number; total: string }>({
    name: 'read_uncharged_by_kind',
    text: `SELECT kind, count(*)::int AS count, sum(amount) AS total FROM uncharged_work
     WHERE created_at >= $1 AND created_at < $2 GROUP BY kind ORDER BY sum(amount) DESC, kind`,
    values: [from, to],
  })
  return rows.map(({ kind, count, total }) => ({ kind, count, totalAtomic: BigInt(total) }))
}

async function readByPayer(sql: Sql, { from, to }: LedgerPeriod): Promise<PayerAmounts> {
  const { rows } = await sql.query<PayerAmountRow>({
    name: 'read_uncharged_by_payer',
    text: `SELECT payer, count(*)::int AS count, sum(amount) AS total, count(*) OVER ()::int AS payers,
       (sum(count(*)) OVER ())::int AS all_count, sum(sum(amount)) OVER () AS all_total
     FROM uncharged_work WHERE created_at >= $1 AND created_at < $2
     GROUP BY payer ORDER BY total DESC, payer LIMIT $3`,
    values: [from, to, SHOWN_PAYERS],
  })
  return payerAmounts(rows)
}

async function readUnrecordedAttempts(sql: Sql, { from, to }: LedgerPeriod): Promise<CountAndSum> {
  const { rows } = await sql.query<{ count: number; total: string }>({
    name: 'read_unrecorded_attempts',
    text: `SELECT count(*)::int AS count, COALESCE(sum(authorized_maximum), 0) AS total
     FROM upstream_attempts JOIN authorizations ON authorizations.id = authorization_id
     WHERE state IN ('failed_empty', 'failed_ambiguous') AND finished_at >= $1 AND finished_at < $2
       AND finished_at >= (SELECT applied_at FROM schema_additions WHERE name = '0010-uncharged-work.sql')
       AND NOT EXISTS (SELECT FROM uncharged_work
         WHERE uncharged_work.job_id = upstream_attempts.job_id
           AND uncharged_work.authorization_id = upstream_attempts.authorization_id
           AND kind IN ('empty_output', 'unknown_outcome', 'lost_call'))`,
    values: [from, to],
  })
  return countAndSum(rows)
}
