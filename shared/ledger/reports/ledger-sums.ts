import { REVERTED_BATCHES } from './settlement-gas.ts'

/**
 * Returns common table expressions with the sums of the period from `from` to `until` (SQL expressions), each by
 * `bucket`, an hour or a day in UTC. The gas of settlements and batches that reverted is gas of settlements as any other;
 * uncharged work, a bound of losses, names that of settlements once more.
 */
export function ledgerSums(bucket: 'hour' | 'day', from: string, until: string): string {
  const within = (column: string) => `${column} >= ${from} AND ${column} < ${until}`
  const start = (column: string) => `date_trunc('${bucket}', ${column}, 'UTC') AS start`
  return `charged AS (
      SELECT ${start('finished_at')}, count(*) AS count, sum(charge_amount) AS total FROM jobs
      WHERE state = 'completed' AND ${within('finished_at')} GROUP BY 1),
    settled AS (
      SELECT ${start('finished_at')}, sum(charge_amount) AS total, sum(gas_cost) AS gas,
        count(*) FILTER (WHERE finalized_at IS NULL) AS not_final FROM settlements
      WHERE state = 'confirmed' AND ${within('finished_at')} GROUP BY 1),
    reverted AS (
      SELECT ${start('finished_at')}, sum(gas_cost) AS gas FROM settlements
      WHERE state = 'reverted' AND gas_cost IS NOT NULL AND ${within('finished_at')} GROUP BY 1),
    batches AS (
      SELECT ${start('reverted_at')}, sum(reverted_gas_cost) AS gas FROM ${REVERTED_BATCHES}
      WHERE ${within('reverted_at')} GROUP BY 1),
    uncharged AS (
      SELECT ${start('created_at')}, count(*) AS count, sum(amount) AS total FROM uncharged_work
      WHERE ${within('created_at')} GROUP BY 1),
    vendors AS (
      SELECT ${start('finished_at')}, sum(vendor_cost) AS total FROM upstream_attempts
      WHERE state IN ('succeeded', 'failed_empty', 'failed_ambiguous') AND ${within('finished_at')} GROUP BY 1)`
}

/** The sums of one bucket, joined to a table or series `buckets` with the column `start`. */
export const JOINED_SUMS = `coalesce(charged.count, 0) AS charged_jobs, coalesce(charged.total, 0) AS charged_total,
  coalesce(settled.total, 0) AS settled_total,
  coalesce(settled.gas, 0) + coalesce(reverted.gas, 0) + coalesce(batches.gas, 0) AS settlement_gas,
  coalesce(uncharged.count, 0) AS uncharged_count,
  coalesce(uncharged.total, 0) AS uncharged_total, coalesce(vendors.total, 0) AS vendor_total`
export const JOINS = `LEFT JOIN charged USING (start) LEFT JOIN settled USING (start)
  LEFT JOIN reverted USING (start) LEFT JOIN batches USING (start) LEFT JOIN uncharged USING (start)
  LEFT JOIN vendors USING (start)`
