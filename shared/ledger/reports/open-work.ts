import type { Sql } from '../pool.ts'
import { readRows } from '../read-rows.ts'

/** The open amount of one payer, in atomic USDC. */
export interface PayerAmount {
  readonly payer: string
  readonly count: number
  readonly totalAtomic: bigint
}

/** Sums over all payers, and the payers with the largest amounts. */
export interface PayerAmounts {
  readonly count: number
  readonly totalAtomic: bigint
  readonly payers: number
  readonly greatest: readonly PayerAmount[]
}

export const SHOWN_PAYERS = 20

/** One payer's sums; every row repeats the sums over all payers. */
export interface PayerAmountRow extends PayerAmount {
  readonly payers: number
  readonly allCount: number
  readonly allTotal: bigint
}

/** The columns of `PayerAmountRow` in a statement that groups by payer, for the sums of an amount. */
export function amountsOfPayers(amount: string): string {
  return `payer, count(*)::int AS count, sum(${amount}) AS "totalAtomic", count(*) OVER ()::int AS payers,
       (sum(count(*)) OVER ())::int AS "allCount", sum(sum(${amount})) OVER () AS "allTotal"`
}

export function payerAmounts(rows: readonly PayerAmountRow[]): PayerAmounts {
  const [{ allCount, allTotal, payers } = { allCount: 0, allTotal: 0n, payers: 0 }] = rows
  const greatest = rows.map(({ payer, count, totalAtomic }) => ({ payer, count, totalAtomic }))
  return { count: allCount, totalAtomic: allTotal, payers, greatest }
}

/** Returns the sums that unfinished jobs may still charge: the charge where it is fixed, the quoted maximum before. */
export async function readOpenExposure(sql: Sql): Promise<PayerAmounts> {
  const rows = await readRows<PayerAmountRow>(sql, {
    name: 'read_open_exposure',
    text: `SELECT ${amountsOfPayers('coalesce(charge_amount, quoted_maximum)')}
     FROM jobs WHERE state IN ('accepted', 'generating', 'generated', 'settling')
     GROUP BY payer ORDER BY "totalAtomic" DESC, payer LIMIT $1`,
    values: [SHOWN_PAYERS],
  })
  return payerAmounts(rows)
}

/** Returns finished work whose charge could not be settled, has not been paid since and is not written off, of any age. */
export async function readDebts(sql: Sql): Promise<PayerAmounts> {
  const rows = await readRows<PayerAmountRow>(sql, {
    name: 'read_debts',
    text: `SELECT ${amountsOfPayers('charge_amount')}
     FROM jobs WHERE is_owed AND NOT EXISTS (SELECT FROM resolutions
       WHERE item = 'debt' AND resolutions.job_id = jobs.id AND resolutions.resolved_at >= jobs.finished_at)
     GROUP BY payer ORDER BY "totalAtomic" DESC, payer LIMIT $1`,
    values: [SHOWN_PAYERS],
  })
  return payerAmounts(rows)
}

export interface UnfinishedJobs {
  readonly state: string
  readonly count: number
  readonly oldestJobId: string
  /** Since acceptance, by the database's clock. */
  readonly oldestAgeMs: number
}

/** Returns for each unfinished state its number of jobs and the age of the oldest one. */
export async function readUnfinishedJobs(sql: Sql): Promise<readonly UnfinishedJobs[]> {
  const { rows } = await sql.query<UnfinishedJobs>(
    `SELECT state, count(*)::int AS count, (array_agg(id ORDER BY accepted_at))[1] AS "oldestJobId",
       floor(extract(epoch FROM clock_timestamp() - min(accepted_at)) * 1000)::double precision AS "oldestAgeMs"
     FROM jobs WHERE state IN ('accepted', 'generating', 'generated', 'settling')
     GROUP BY state ORDER BY min(accepted_at)`,
  )
  return rows
}
