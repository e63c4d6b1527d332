import type { Sql } from '../pool.ts'
import type { LedgerPeriod } from './period.ts'

/** What one model earned through one operation; atomic USDC. The mean is exact to a hundredth of an atomic unit. */
export interface ModelCharges {
  readonly model: string
  readonly operation: string
  readonly count: number
  readonly totalAtomic: bigint
  readonly meanAtomic: string
  readonly smallestAtomic: bigint
  readonly largestAtomic: bigint
}

/** The jobs completed in the period, the greatest total first. */
export async function readChargesByModel(sql: Sql, { from, to }: LedgerPeriod): Promise<readonly ModelCharges[]> {
  const { rows } = await sql.query<
    Record<'model' | 'operation' | 'total' | 'smallest' | 'largest', string> & { count: number }
  >(
    `SELECT public_model AS model, operation, count(*)::int AS count, sum(charge_amount) AS total,
       min(charge_amount) AS smallest, max(charge_amount) AS largest
     FROM jobs WHERE state = 'completed' AND finished_at >= $1 AND finished_at < $2
     GROUP BY public_model, operation ORDER BY sum(charge_amount) DESC, public_model, operation`,
    [from, to],
  )
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

/** To the nearest hundredth, halves upward. PostgreSQL's own division keeps some sixteen digits, which a large sum exceeds. */
function meanOf(total: bigint, count: bigint): string {
  const hundredths = ((total * 200n + count) / (count * 2n)).toString().padStart(3, '0')
  return `${hundredths.slice(0, -2)}.${hundredths.slice(-2)}`
}
