import type { Sql } from '../pool.ts'

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
export interface PayerAmountRow {
  readonly payer: string
  readonly count: number
  readonly total: string
  readonly payers: number
  readonly all_count: number
  readonly all_total: string
}

export function payerAmounts(rows: readonly PayerAmountRow[]): PayerAmounts {
  const [first] = rows
  return {
    count: first?.all_count ?? 0,
    totalAtomic: BigInt(first?.all_total ?? 0),
    payers: first?.payers ?? 0,
    greatest: rows.map(({ payer, count, total }) => ({ payer, count, totalAtomic: BigInt(total) })),
  }
}

/** Returns the sums that unfinished jobs may still charge: the charge where it is fixed, the quoted maximum before. */
export async function readOpenExposure(sql: Sql): Promise<PayerAmounts> {
  const { rows } = await sql.query<PayerAmountRow>({
    name: 'read_open_exposure',
    text: `SELECT payer, count(*)::int AS count, sum(COALESCE(charge_amount, quoted_maximum)) AS total,
       count(*) OVER ()::int AS payers, (sum(count(*)) OVER ())::int AS all_count,
       sum(sum(COALESCE(charge_amount, quoted_maximum))) OVER () AS all_total
     FROM jobs WHERE state IN ('accepted', 'generating', 'generated', 'settling')
     GROUP BY payer ORDER BY total DESC, payer LIMIT $1`,
    values: [SHOWN_PAYERS],
  })
  return payerAmounts(rows)
}

/** Returns finished work whose charge could not be settled, has not been paid since and is not written off, of any age. */
export async function readDebts(sql: Sql): Promise<PayerAmounts> {
  const { rows } = await sql.query<PayerAmountRow>({
    name: 'read_debts',
    text: `SELECT payer, count(*)::int AS count, sum(charge_amount) AS total, count(*) OVER ()::int AS payers,
       (sum(count(*)) OVER ())::int AS all_count, sum(sum(charge_amount)) OVER () AS all_total
     FROM jobs WHERE is_owed AND NOT EXISTS (SELECT FROM resolutions
       WHERE item = 'debt' AND resolutions.job_id = jobs.id AND resolutions.resolved_at >= jobs.finished_at)
     GROUP BY payer ORDER BY total DESC, payer LIMIT $1`,
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
