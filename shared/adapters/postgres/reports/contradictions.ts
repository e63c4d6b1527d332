import type { Sql } from '../pool.ts'
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
 */
export async function readContradictions(sql: Sql, { from, to }: LedgerPeriod): Promise<readonly Contradiction[]> {
  const { rows } = await sql.query<
    Record<'job_id' | 'job_state', string> &
      Record<'charge' | 'settled' | 'receipted' | 'settled_transaction' | 'receipt_transaction', string | null>
  >({
    name: 'read_contradictions',
    text: `SELECT jobs.id AS job_id, jobs.state AS job_state, jobs.charge_amount AS charge,
       settlements.charge_amount AS settled, settlements.transaction_hash AS settled_transaction,
       receipts.body ->> 'charge_atomic' AS receipted, receipts.body ->> 'transaction' AS receipt_transaction
     FROM jobs
       LEFT JOIN settlements ON settlements.job_id = jobs.id AND settlements.state = 'confirmed'
       LEFT JOIN receipts ON receipts.job_id = jobs.id
     WHERE (jobs.state = 'completed' AND jobs.finished_at >= $1 AND jobs.finished_at < $2
         OR settlements.finished_at >= $1 AND settlements.finished_at < $2)
       AND (jobs.state <> 'completed'
         OR jobs.charge_amount <> COALESCE(settlements.charge_amount, 0)
         OR (receipts.body ->> 'charge_atomic')::numeric IS DISTINCT FROM jobs.charge_amount
         OR settlements.id IS NOT NULL AND receipts.body ->> 'transaction' IS DISTINCT FROM settlements.transaction_hash)
     ORDER BY jobs.id LIMIT ${MAXIMUM_ROWS}`,
    values: [from, to],
  })
  return rows.map((row) => ({
    jobId: row.job_id,
    jobState: row.job_state,
    chargeAtomic: atomic(row.charge),
    settledAtomic: atomic(row.settled),
    receiptAtomic: atomic(row.receipted),
    settledTransaction: row.settled_transaction,
    receiptTransaction: row.receipt_transaction,
  }))
}

function atomic(digits: string | null): bigint | null {
  return digits === null ? null : BigInt(digits)
}
