import type { Sql } from '../pool.ts'
import { readOne, readRows } from '../read-rows.ts'
import type { LedgerPeriod } from './period.ts'

export interface CountAndSum {
  readonly count: number
  readonly totalAtomic: bigint
}

/** Returns the charges of all jobs that were completed in the period, in atomic USDC. */
export function readRevenue(sql: Sql, { from, to }: LedgerPeriod): Promise<CountAndSum> {
  return readOne<CountAndSum>(sql, {
    name: 'read_revenue',
    text: `SELECT ${countAndSum('charge_amount')} FROM jobs WHERE state = 'completed' AND finished_at >= $1 AND finished_at < $2`,
    values: [from, to],
  })
}

/** The columns of `CountAndSum`, for the sum of an amount over all rows. */
export function countAndSum(amount: string): string {
  return `count(*)::int AS count, coalesce(sum(${amount}), 0) AS "totalAtomic"`
}

/**
 * The charges of one model through one operation, in atomic USDC. The mean is exact to a hundredth of an atomic unit.
 */
export interface ModelCharges {
  readonly model: string
  readonly operation: string
  readonly count: number
  readonly totalAtomic: bigint
  readonly meanAtomic: string
  readonly smallestAtomic: bigint
  readonly largestAtomic: bigint
}

/** Returns the charges of the jobs completed in the period, largest total first. */
export async function readChargesByModel(sql: Sql, { from, to }: LedgerPeriod): Promise<readonly ModelCharges[]> {
  const rows = await readRows<Omit<ModelCharges, 'meanAtomic'>>(sql, {
    name: 'read_charges_by_model',
    text: `SELECT public_model AS model, operation, count(*)::int AS count, sum(charge_amount) AS "totalAtomic",
       min(charge_amount) AS "smallestAtomic", max(charge_amount) AS "largestAtomic"
     FROM jobs WHERE state = 'completed' AND finished_at >= $1 AND finished_at < $2
     GROUP BY public_model, operation ORDER BY sum(charge_amount) DESC, public_model, operation`,
    values: [from, to],
  })
  return rows.map((row) => ({ ...row, meanAtomic: meanOf(row.totalAtomic, BigInt(row.count)) }))
}

/**
 * Rounds to the nearest hundredth, halves up. PostgreSQL's division keeps about sixteen digits, too few for a large
 * sum.
 */
function meanOf(total: bigint, count: bigint): string {
  const hundredths = ((total * 200n + count) / (count * 2n)).toString().padStart(3, '0')
  return `${hundredths.slice(0, -2)}.${hundredths.slice(-2)}`
}

/** Returns number and charges of the signed settlements whose outcome is open. They may or may not be on chain. */
export function readSettlingNow(sql: Sql): Promise<CountAndSum> {
  return readOne<CountAndSum>(sql, {
    name: 'read_settling_now',
    text: `SELECT ${countAndSum('charge_amount')} FROM settlements WHERE state = 'signed'`,
    values: [],
  })
}
