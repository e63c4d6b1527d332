import type { Sql } from '../pool.ts'
import type { LedgerPeriod } from './period.ts'

/**
 * Selects what the vendors bill for the results of `jobs.id`: of all attempts, since a result may have been generated
 * again; `null` when the price of one is not known. `deployment` is that of the last.
 */
export const VENDOR_OF_JOB = `SELECT (array_agg(deployment ORDER BY started_at DESC))[1] AS deployment,
       CASE WHEN bool_and(vendor_cost IS NOT NULL) THEN sum(vendor_cost) END AS vendor_cost
     FROM upstream_attempts WHERE upstream_attempts.job_id = jobs.id AND state = 'succeeded'`

/** What the charges of one model through one deployment earned, in atomic USDC. */
export interface Margin {
  readonly model: string
  readonly deployment: string
  readonly calls: number
  readonly chargedAtomic: bigint
  readonly vendorAtomic: bigint
  readonly gasAtomic: bigint
  /** Charges, less vendors and gas, as far as both are known. */
  readonly marginAtomic: bigint
  /** Calls whose vendor's price, or whose gas, is not known. */
  readonly withoutVendorCost: number
  readonly withoutGas: number
}

interface MarginRow {
  model: string
  deployment: string
  calls: number
  charged: string
  vendor: string
  gas: string
  without_vendor_cost: number
  without_gas: number
}

/** Returns the margin of the jobs completed in the period by model and deployment, the smallest first. */
export async function readMargins(sql: Sql, { from, to }: LedgerPeriod): Promise<readonly Margin[]> {
  const { rows } = await sql.query<MarginRow>({
    name: 'read_margins',
    text: `SELECT public_model AS model, coalesce(attempts.deployment, 'none') AS deployment, count(*)::int AS calls,
       sum(charge_amount) AS charged, coalesce(sum(attempts.vendor_cost), 0) AS vendor,
       coalesce(sum(settlement.gas_cost), 0) AS gas,
       count(*) FILTER (WHERE attempts.vendor_cost IS NULL)::int AS without_vendor_cost,
       count(*) FILTER (WHERE settlement.gas_cost IS NULL)::int AS without_gas
     FROM jobs
     LEFT JOIN LATERAL (${VENDOR_OF_JOB} OFFSET 0) AS attempts ON true
     LEFT JOIN LATERAL (SELECT gas_cost FROM settlements
       WHERE settlements.authorization_id = jobs.authorization_id AND state = 'confirmed' OFFSET 0) AS settlement ON true
     WHERE jobs.state = 'completed' AND finished_at >= $1 AND finished_at < $2
     GROUP BY 1, 2 ORDER BY sum(charge_amount) - coalesce(sum(attempts.vendor_cost), 0) - coalesce(sum(settlement.gas_cost), 0),
       1, 2`,
    values: [from, to],
  })
  return rows.map(marginOf)
}

function marginOf(row: MarginRow): Margin {
  const [chargedAtomic, vendorAtomic, gasAtomic] = [BigInt(row.charged), BigInt(row.vendor), BigInt(row.gas)]
  return {
    model: row.model,
    deployment: row.deployment,
    calls: row.calls,
    chargedAtomic,
    vendorAtomic,
    gasAtomic,
    marginAtomic: chargedAtomic - vendorAtomic - gasAtomic,
    withoutVendorCost: row.without_vendor_cost,
    withoutGas: row.without_gas,
  }
}
