import type { Sql } from '../pool.ts'
import { readOne, readRows } from '../read-rows.ts'
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
  /** All that was settled and spent in the period: failed calls and batches that reverted as a whole included. */
  readonly total: Earned
}

interface SumRow {
  readonly charged: bigint
  readonly vendor: bigint
  readonly gas: bigint
}

/** The columns of {@link MARGIN_SUMS}. */
export interface MarginRow extends SumRow {
  readonly calls: number
  readonly without_vendor_cost: number
  readonly without_gas: number
}

const MOST_PAYERS = 10

/** Reads what a period earned: what finished at or after its beginning and before its end. */
export async function readMargins(sql: Sql, period: LedgerPeriod): Promise<Margins> {
  const ofModels = await readGroups<MarginRow & { model: string; deployment: string }>(sql, period, {
    name: 'read_margins_of_models',
    groups: OF_MODELS,
  })
  const ofPayers = await readGroups<MarginRow & { payer: string }>(sql, period, {
    name: 'read_margins_of_payers',
    groups: '(SELECT payer FROM authorizations WHERE authorizations.id = jobs.authorization_id) AS payer',
    most: MOST_PAYERS,
  })
  const total = await readOne<SumRow>(sql, {
    name: 'read_earned',
    text: `WITH ${ledgerSums('day', '$1::timestamptz', '$2::timestamptz')},
     buckets AS (SELECT start FROM settled UNION SELECT start FROM reverted UNION SELECT start FROM batches
       UNION SELECT start FROM vendors),
     days AS (SELECT ${JOINED_SUMS} FROM buckets ${JOINS})
     SELECT coalesce(sum(settled_total), 0) AS charged, coalesce(sum(vendor_total), 0) AS vendor,
       coalesce(sum(settlement_gas), 0) AS gas FROM days`,
    values: [period.from, period.to],
  })
  return {
    ofModels: ofModels.map((row) => ({ model: row.model, deployment: row.deployment, ...marginOf(row) })),
    ofPayers: ofPayers.map((row) => ({ payer: row.payer, ...marginOf(row) })),
    total: earnedOf(total),
  }
}

/**
 * Over charged `jobs`, joined to `attempts` (`VENDOR_OF_JOB`) and `settlement` (`SETTLEMENT_OF_JOB`): the calls and
 * amounts of a group.
 */
export const MARGIN_SUMS = `count(*)::int AS calls, sum(charge_amount) AS charged,
  coalesce(sum(attempts.vendor_cost), 0) AS vendor, coalesce(sum(settlement.gas_cost), 0) AS gas,
  count(*) FILTER (WHERE attempts.vendor_cost IS NULL)::int AS without_vendor_cost,
  count(*) FILTER (WHERE settlement.gas_cost IS NULL)::int AS without_gas`

/** The same sums as PostgreSQL reads them from an object. */
const MARGIN_COLUMNS = `model text, deployment text, calls bigint, charged numeric, vendor numeric, gas numeric,
  without_vendor_cost bigint, without_gas bigint`

/** The confirmed settlement of `jobs.authorization_id`. */
export const SETTLEMENT_OF_JOB = `SELECT gas_cost FROM settlements
  WHERE settlements.authorization_id = jobs.authorization_id AND state = 'confirmed'`

/** Calls that were completed from `from` until `until` (SQL expressions), each with vendors and gas. */
const chargedCalls = (from: string, until: string) => `jobs
  LEFT JOIN LATERAL (${VENDOR_OF_JOB} OFFSET 0) AS attempts ON true
  LEFT JOIN LATERAL (${SETTLEMENT_OF_JOB} OFFSET 0) AS settlement ON true
  WHERE jobs.state = 'completed' AND finished_at >= ${from} AND finished_at < ${until}`

const OF_MODELS = "public_model AS model, coalesce(attempts.deployment, 'none') AS deployment"

/** A query of the margins of models as `ledger_hours.margins` has them, by hour: `start` and `margins`. */
export function marginsOfHours(from: string, until: string): string {
  return `SELECT start, jsonb_agg(to_jsonb(sums) - 'start') AS margins FROM (
      SELECT date_trunc('hour', finished_at, 'UTC') AS start, ${OF_MODELS}, ${MARGIN_SUMS}
      FROM ${chargedCalls(from, until)} GROUP BY 1, 2, 3) AS sums
    GROUP BY start`
}

async function readGroups<Row extends MarginRow>(
  sql: Sql,
  { from, to }: LedgerPeriod,
  { name, groups, most = null }: { name: string; groups: string; most?: number | null },
): Promise<readonly Row[]> {
  return await readRows<Row>(sql, {
    name,
    text: `SELECT ${groups}, ${MARGIN_SUMS} FROM ${chargedCalls('$1', '$2')}
     GROUP BY ${groups.includes('payer') ? '1' : '1, 2'}
     ORDER BY sum(charge_amount) - coalesce(sum(attempts.vendor_cost), 0) - coalesce(sum(settlement.gas_cost), 0), 1
     LIMIT $3`,
    values: [from, to, most],
  })
}

/** What one model earned through one deployment on a UTC day. */
export interface ModelDay extends Margin {
  /** `YYYY-MM-DD`. */
  readonly day: string
  readonly model: string
  readonly deployment: string
}

/**
 * Returns what models earned on the days of the period, newest first: the sums of hours that were rolled up, and those of
 * later calls. `model` is the only one meant, if any.
 */
export async function readModelDays(
  sql: Sql,
  period: { readonly from: Date; readonly until: Date },
  model: string | null = null,
): Promise<readonly ModelDay[]> {
  const rows = await readRows<MarginRow & { day: string; model: string; deployment: string }>(sql, {
    name: 'read_model_days',
    text: `WITH live AS MATERIALIZED (
         SELECT greatest($1::timestamptz, (SELECT max(hour) + interval '1 hour' FROM ledger_hours)) AS since),
       hours AS (
         SELECT hour AS start, margins FROM ledger_hours WHERE hour >= $1 AND hour < $2
         UNION ALL ${marginsOfHours('(SELECT since FROM live)', '$2')})
       SELECT to_char(start AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day, model, deployment, sum(calls)::int AS calls,
         sum(charged) AS charged, sum(vendor) AS vendor, sum(gas) AS gas,
         sum(without_vendor_cost)::int AS without_vendor_cost, sum(without_gas)::int AS without_gas
       FROM hours, jsonb_to_recordset(margins) AS sums (${MARGIN_COLUMNS})
       WHERE $3::text IS NULL OR model = $3 GROUP BY 1, 2, 3 ORDER BY 1 DESC, 2, 3`,
    values: [period.from, period.until, model],
  })
  return rows.map((row) => ({ day: row.day, model: row.model, deployment: row.deployment, ...marginOf(row) }))
}

/** Reads a row of {@link MARGIN_SUMS}. */
export function marginOf(row: MarginRow): Margin {
  return {
    calls: row.calls,
    ...earnedOf(row),
    withoutVendorCost: row.without_vendor_cost,
    withoutGas: row.without_gas,
  }
}

function earnedOf({ charged, vendor, gas }: SumRow): Earned {
  return { chargedAtomic: charged, vendorAtomic: vendor, gasAtomic: gas, marginAtomic: charged - vendor - gas }
}
