import type { Sql } from '../pool.ts'
import type { LedgerPeriod } from './period.ts'

export interface CountAndSum {
  readonly count: number
  readonly totalAtomic: bigint
}

/** Returns the charges of all jobs that were completed in the period, in atomic USDC. */
export async function readRevenue(sql: Sql, { from, to }: LedgerPeriod): Promise<CountAndSum> {
  const { rows } = await sql.query<{ count: number; total: string }>({
    name: 'read_revenue',
    text: `SELECT count(*)::int AS count, COALESCE(sum(charge_amount), 0) AS total
     FROM jobs WHERE state = 'completed' AND finished_at >= $1 AND finished_at < $2`,
    values: [from, to],
  })
  return countAndSum(rows)
}

/** Parses the one row of an aggregate without groups. */
export function countAndSum([row]: readonly { count: number; total: string }[]): CountAndSum {
  if (!row) throw new Error('an aggregate without groups always returns one row')
  return { count: row.count, totalAtomic: BigInt(row.total) }
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
  const { rows } = await sql.query<
    Record<'model' | 'operation' | 'total' | 'smallest' | 'largest', string> & { count: number }
  >({
    name: 'read_charges_by_model',
    text: `SELECT public_model AS model, operation, count(*)::int AS count, sum(charge_amount) AS total,
       min(charge_amount) AS smallest, max(charge_amount) AS largest
     FROM jobs WHERE state = 'completed' AND finished_at >= $1 AND finished_at < $2
     GROUP BY public_model, operation ORDER BY sum(charge_amount) DESC, public_model, operation`,
    values: [from, to],
  })
  return rows.map(({ model, operation, count, total, smallest, largest }) => ({
    model,
    operation,
    count,
    totalAtomic: BigInt(total),
    meanAtomic: meanOf(BigInt(total), BigInt(count)),
    smallestAtomic: BigInt(smallest),
    largestAtomic: BigInt(largest),
  }))
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
export async function readSettlingNow(sql: Sql): Promise<CountAndSum> {
  const { rows } = await sql.query<{ count: number; total: string }>(
    `SELECT count(*)::int AS count, COALESCE(sum(charge_amount), 0) AS total FROM settlements WHERE state = 'signed'`,
  )
  return countAndSum(rows)
}
