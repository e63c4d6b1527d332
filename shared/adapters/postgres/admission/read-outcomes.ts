import type { ErrorCode } from '#shared/errors/error-codes.ts'
import type { JobOutcome, JobState, PaymentResponse } from '#shared/jobs/job.ts'
import { isUnfinished } from '#shared/jobs/transitions.ts'
import type { Sql } from '../pool.ts'

interface OutcomeRow {
  id: string
  state: JobState
  catalog_version: string
  result_body: string | null
  result_expired: boolean
  receipt_id: string | null
  token_secret_id: string | null
  receipt_issued_at: string | null
  payment_response: PaymentResponse | null
  failure_code: ErrorCode | null
}

/** How jobs stand, by id. The result is read only where it is released, so a large one is never fetched in vain. */
export async function readOutcomes(sql: Sql, jobIds: readonly string[]): Promise<Map<string, JobOutcome>> {
  // With a list PostgreSQL plans anew each time, which takes longer than the reading; nearly always one job is asked for.
  const [which, wanted] = jobIds.length === 1 ? ['= $1', jobIds[0]] : ['= ANY($1)', jobIds]
  const { rows } = await sql.query<OutcomeRow>(
    `SELECT jobs.id, state, catalog_version, receipt_id, token_secret_id, payment_response, failure_code,
       receipts.body->>'issued_at' AS receipt_issued_at,
       CASE WHEN state = 'completed' THEN result_body END AS result_body, result_expired_at IS NOT NULL AS result_expired
     FROM jobs LEFT JOIN receipts ON receipts.id = jobs.receipt_id WHERE jobs.id ${which}`,
    [wanted],
  )
  return new Map(rows.map((row) => [row.id, outcomeFromRow(row)]))
}

function outcomeFromRow(row: OutcomeRow): JobOutcome {
  if (isUnfinished(row.state)) return { state: row.state }
  if (row.state === 'review') return { state: 'review' }
  if (row.state !== 'completed') {
    if (row.failure_code === null) throw new Error(`job ${row.id} failed without a code`)
    return { state: row.state, failureCode: row.failure_code }
  }
  const { result_body, receipt_id, token_secret_id, receipt_issued_at, payment_response } = row
  if (receipt_id === null || token_secret_id === null || receipt_issued_at === null || payment_response === null)
    throw new Error(`job ${row.id} is completed without receipt or payment`)
  if (row.result_expired) return { state: 'expired', receiptId: receipt_id, receiptSecretId: token_secret_id }
  if (result_body === null) throw new Error(`job ${row.id} is completed without result`)
  return {
    state: 'completed',
    resultBody: result_body,
    catalogVersion: row.catalog_version,
    receiptId: receipt_id,
    receiptSecretId: token_secret_id,
    receiptIssuedAt: new Date(receipt_issued_at),
    paymentResponse: payment_response,
  }
}
