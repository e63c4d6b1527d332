import type { Sql } from '../pool.ts'
import { JOINED_SUMS, JOINS, ledgerSums } from './ledger-sums.ts'
import type { LedgerPeriod } from './period.ts'

/**
 * Selects what the vendors bill for the work of `jobs.id`: of all attempts, since a result may have been generated again;
 * `null` when that of a result is not known. `deployment` is that of the last result.
 */
export const VENDOR_OF_JOB = `SELECT (array_agg(deployment ORDER BY started_at DESC) FILTER (WHERE state = 'succeeded'))[1] AS deployment,
       CASE WHEN bool_and(vendor_cost IS NOT NULL OR state <> 'succeeded') THEN sum(vendor_cost) END AS vendor_cost
     FROM upstream_attempts WHERE upstream_attempts.job_id = jobs.id`

/** What was earned, in atomic USDC. */
export interface Earned {
  readonly chargedAtomic: bigint
  readonly vendorAtomic: bigint
  readonly gasAtomic: bigint
  /** Charges, less vendors and gas, as far as both are known. */
  readonly marginAtomic: bigint
}

/** What the charges of a group of calls earned. */
export interface Margin extends Earned {
  readonly calls: number
  /** Calls whose vendor's price, or whose gas, is not known. */
  readonly withoutVendorCost: number
  readonly withoutGas: number
}

/** What a period earned. */
export interface Margins {
  /** Of completed calls, by model and deployment, the smallest margin first. */
  readonly ofModels: readonly (Margin & { readonly model: string; readonly deployment: string })[]
  /** Of completed calls, the payers with the smallest margins. */
  readonly ofPayers: readonly (Margin & { readonly payer: string })[]
  /** All that was settled and spent in the period: failed calls, permits and reverted settlements included. */
  readonly total: Earned
}

interface SumRow {
  readonly charged: string
  readonly vendor: string
  readonly gas: string
}

interface MarginRow extends SumRow {
  readonly calls: number
  readonly without_vendor_cost: number
  readonly without_gas: number
}

const MOST_PAYERS = 10

/** Reads what a period earned: what finished at or after its beginning and before its end. */
export async function readMargins(sql: Sql, period: LedgerPeriod): Promise<Margins> {
  const ofModels = await readGroups<MarginRow & { model: string; deployment: string }>(sql, period, {
    name: 'read_margins_of_models',
    groups: "public_model AS model, coalesce(attempts.deployment, 'none') AS deployment",
  })
  const ofPayers = await readGroups<MarginRow & { payer: string }>(sql, period, {
    name: 'read_margins_of_payers',
    groups: '(SELECT payer FROM authorizations WHERE authorizations.id = jobs.authorization_id) AS payer',
    most: MOST_PAYERS,
  })
  const [total] = (
    await sql.query<SumRow>({
      name: 'read_earned',
      text: `WITH ${ledgerSums('day', '$1::timestamptz', '$2::timestamptz')},
       buckets AS (SELECT start FROM settled UNION SELECT start FROM batches UNION SELECT start FROM permits
         UNION SELECT start FROM vendors),
       days AS (SELECT ${JOINED_SUMS} FROM buckets ${JOINS})
       SELECT coalesce(sum(settled_total), 0) AS charged, coalesce(sum(vendor_total), 0) AS vendor,
         coalesce(sum(settlement_gas + permit_gas), 0) AS gas FROM days`,
      values: [period.from, period.to],
    })
  ).rows
  if (!total) throw new Error('sums have one row')
  return {
    ofModels: ofModels.map((row) => ({ model: row.model, deployment: row.deployment, ...marginOf(row) })),
    ofPayers: ofPayers.map((row) => ({ payer: row.payer, ...marginOf(row) })),
    total: earnedOf(total),
  }
}

async function readGroups<Row extends MarginRow>(
  sql: Sql,
  { from, to }: LedgerPeriod,
  { name, groups, most = null }: { name: string; groups: string; most?: number | null },
): Promise<readonly Row[]> {
  const { rows } = await sql.query<Row>({
    name,
    text: `SELECT ${groups}, count(*)::int AS calls, sum(charge_amount) AS charged,
       coalesce(sum(attempts.vendor_cost), 0) AS vendor, coalesce(sum(settlement.gas_cost), 0) AS gas,
       count(*) FILTER (WHERE attempts.vendor_cost IS NULL)::int AS without_vendor_cost,
       count(*) FILTER (WHERE settlement.gas_cost IS NULL)::int AS without_gas
     FROM jobs
     LEFT JOIN LATERAL (${VENDOR_OF_JOB} OFFSET 0) AS attempts ON true
     LEFT JOIN LATERAL (SELECT gas_cost FROM settlements
       WHERE settlements.authorization_id = jobs.authorization_id AND state = 'confirmed' OFFSET 0) AS settlement ON true
     WHERE jobs.state = 'completed' AND finished_at >= $1 AND finished_at < $2
     GROUP BY ${groups.includes('payer') ? '1' : '1, 2'}
     ORDER BY sum(charge_amount) - coalesce(sum(attempts.vendor_cost), 0) - coalesce(sum(settlement.gas_cost), 0), 1
     LIMIT $3`,
    values: [from, to, most],
  })
  return rows
}

function marginOf(row: MarginRow): Margin {
  return {
    calls: row.calls,
    ...earnedOf(row),
    withoutVendorCost: row.without_vendor_cost,
    withoutGas: row.without_gas,
  }
}

function earnedOf({ charged, vendor, gas }: SumRow): Earned {
  const [chargedAtomic, vendorAtomic, gasAtomic] = [BigInt(charged), BigInt(vendor), BigInt(gas)]
  return { chargedAtomic, vendorAtomic, gasAtomic, marginAtomic: chargedAtomic - vendorAtomic - gasAtomic }
}
