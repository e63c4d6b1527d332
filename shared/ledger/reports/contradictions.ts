import type { Sql } from '../pool.ts'
import { readRows } from '../read-rows.ts'
import type { LedgerPeriod } from './period.ts'

/** A job whose rows contradict each other; amounts are atomic USDC, `null` where there is none. */
export interface Contradiction {
  readonly jobId: string
  readonly jobState: string
  readonly chargeAtomic: bigint | null
  readonly settledAtomic: bigint | null
  readonly receiptAtomic: bigint | null
  readonly settledTransaction: string | null
  readonly receiptTransaction: string | null
}

const MAXIMUM_ROWS = 1000

/**
 * Returns the period's jobs whose charge, confirmed settlement and receipt differ in amount or transaction, and those
 * with a confirmed settlement that are not completed; at most 1,000. A charge of zero needs no settlement.
 *
 * `OFFSET 0` looks settlements and receipts up job by job: otherwise the planner joins whole tables.
 */
export async function readContradictions(sql: Sql, { from, to }: LedgerPeriod): Promise<readonly Contradiction[]> {
  return await readRows<Contradiction>(sql, {
    name: 'read_contradictions',
    text: `WITH candidates AS (
       SELECT id, state, charge_amount FROM jobs
         WHERE state = 'completed' AND finished_at >= $1 AND finished_at < $2
       UNION ALL SELECT jobs.id, jobs.state, jobs.charge_amount FROM settlements JOIN jobs ON jobs.id = settlements.job_id
         WHERE settlements.state = 'confirmed' AND settlements.finished_at >= $1 AND settlements.finished_at < $2
           AND (jobs.state <> 'completed' OR jobs.finished_at < $1 OR jobs.finished_at >= $2))
     SELECT jobs.id AS "jobId", jobs.state AS "jobState", jobs.charge_amount AS "chargeAtomic",
       settlements.charge_amount AS "settledAtomic", (receipts.body ->> 'charge_atomic')::numeric AS "receiptAtomic",
       settlements.transaction_hash AS "settledTransaction", receipts.body ->> 'transaction' AS "receiptTransaction"
     FROM candidates AS jobs
       LEFT JOIN LATERAL (SELECT id, charge_amount, transaction_hash FROM settlements
         WHERE settlements.job_id = jobs.id AND settlements.state = 'confirmed' OFFSET 0) AS settlements ON true
       LEFT JOIN LATERAL (SELECT body FROM receipts WHERE receipts.job_id = jobs.id OFFSET 0) AS receipts ON true
     WHERE jobs.state <> 'completed'
       OR jobs.charge_amount <> COALESCE(settlements.charge_amount, 0)
       OR (receipts.body ->> 'charge_atomic')::numeric IS DISTINCT FROM jobs.charge_amount
       OR settlements.id IS NOT NULL AND receipts.body ->> 'transaction' IS DISTINCT FROM settlements.transaction_hash
     ORDER BY jobs.id LIMIT ${MAXIMUM_ROWS}`,
    values: [from, to],
  })
}
