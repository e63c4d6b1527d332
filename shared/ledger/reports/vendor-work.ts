import type { Sql } from '../pool.ts'
import { readRows } from '../read-rows.ts'

/** What one vendor's model did on a UTC day. */
export interface VendorWork {
  /** `YYYY-MM-DD`, of the end of each attempt. */
  readonly day: string
  readonly deployment: string
  /** As they were when it was called. */
  readonly vendor: string
  readonly upstreamModel: string
  readonly attempts: number
  /** Attempts whose cost, or usage, is not known. */
  readonly unknown: number
  readonly costAtomic: bigint
  /** By field of `usage`. */
  readonly usage: Readonly<Record<string, bigint>>
}

/** Reads what vendors bill for the attempts that ended on the days from `first` to `last`, by day, deployment and model. */
export async function readVendorWork(
  sql: Sql,
  { first, last }: { readonly first: string; readonly last: string },
): Promise<readonly VendorWork[]> {
  const rows = await readRows<Omit<VendorWork, 'usage'> & { usage: Record<string, string> | null }>(sql, {
    name: 'read_vendor_work',
    text: `WITH ended AS (
         SELECT to_char(finished_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day, deployment, vendor, upstream_model, usage,
           vendor_cost
         FROM upstream_attempts WHERE state IN ('succeeded', 'failed_empty', 'failed_ambiguous')
           AND finished_at >= $1::date::timestamp AT TIME ZONE 'UTC'
           AND finished_at < ($2::date + 1)::timestamp AT TIME ZONE 'UTC'),
       units AS (
         SELECT day, deployment, vendor, upstream_model, unit, sum(value::numeric)::text AS quantity
         FROM ended, jsonb_each_text(usage) AS measured(unit, value) GROUP BY 1, 2, 3, 4, 5)
       SELECT day, deployment, vendor, upstream_model AS "upstreamModel", count(*)::int AS attempts,
         count(*) FILTER (WHERE vendor_cost IS NULL OR usage IS NULL)::int AS unknown,
         coalesce(sum(vendor_cost), 0) AS "costAtomic",
         (SELECT jsonb_object_agg(unit, quantity) FROM units
          WHERE units.day = ended.day AND units.deployment = ended.deployment
            AND units.vendor = ended.vendor AND units.upstream_model = ended.upstream_model) AS usage
       FROM ended GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4`,
    values: [first, last],
  })
  return rows.map(({ usage, ...row }) => ({
    ...row,
    usage: Object.fromEntries(Object.entries(usage ?? {}).map(([unit, quantity]) => [unit, BigInt(quantity)])),
  }))
}

/** Reads the names of all deployments that were ever published, each with the upstream models that it had. */
export async function readUpstreamModels(sql: Sql): Promise<ReadonlyMap<string, readonly string[]>> {
  const { rows } = await sql.query<{ name: string; models: string[] }>({
    name: 'read_upstream_models',
    text: `SELECT entry ->> 'name' AS name, array_agg(DISTINCT entry ->> 'upstream_model') AS models
     FROM publications, jsonb_array_elements(content -> 'deployments') AS entry
     WHERE kind = 'deployments' GROUP BY 1`,
    values: [],
  })
  return new Map(rows.map(({ name, models }) => [name, models]))
}
