import type { ErrorCode } from '#shared/errors/error-codes.ts'
import type { JobOutcome, JobState, PaymentResponse } from '#shared/jobs/job.ts'
import type { ResolutionOutcome } from '#shared/jobs/resolution.ts'
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
  resolution: ResolutionOutcome | null
  refund_transaction: string | null
}

/** Returns the outcomes of jobs by id. The result body is read only when it is returned, as it may be large. */
export async function readOutcomes(sql: Sql, jobIds: readonly string[]): Promise<Map<string, JobOutcome>> {
  // With a list PostgreSQL plans every execution again, which takes longer than the read; nearly always there is one
  // id.
  const [condition, value] = jobIds.length === 1 ? ['= $1', jobIds[0]] : ['= ANY($1)', jobIds]
  const { rows } = await sql.query<OutcomeRow>({
    name: jobIds.length === 1 ? 'read_outcome' : 'read_outcomes',
    text: `SELECT jobs.id, state, catalog_version, receipt_id, token_secret_id, payment_response, failure_code,
       receipts.body->>'issued_at' AS receipt_issued_at,
       CASE WHEN state = 'completed' OR resolutions.outcome = 're_served' THEN result_body END AS result_body,
       result_expired_at IS NOT NULL AS result_expired, resolutions.outcome AS resolution, refund_transaction
     FROM jobs LEFT JOIN receipts ON receipts.id = jobs.receipt_id
     LEFT JOIN resolutions ON state = 'review' AND resolutions.job_id = jobs.id AND resolutions.item = 'review'
     WHERE jobs.id ${condition}`,
    values: [value],
  })
  return new Map(rows.map((row) => [row.id, outcomeFromRow(row)]))
}

function outcomeFromRow(row: OutcomeRow): JobOutcome {
  if (isUnfinished(row.state)) return { state: row.state }
  if (row.state === 'review') return reviewOutcome(row)
  if (row.state !== 'completed') {
    if (row.failure_code === null) throw new Error(`job ${row.id} failed without a code`)
    return { state: row.state, failureCode: row.failure_code }
  }
  const { result_body, receipt_id, token_secret_id, receipt_issued_at, payment_response } = row
  if (receipt_id === null || token_secret_id === null || receipt_issued_at === null || payment_response === null)
    throw new Error(`job ${row.id} is completed without receipt or payment`)
  if (row.result_expired) return { state: 'expired', receiptId: receipt_id }
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

function reviewOutcome({ id, resolution, refund_transaction, result_body, catalog_version }: OutcomeRow): JobOutcome {
  switch (resolution) {
    case null:
      return { state: 'review' }
    case 'refunded':
      if (refund_transaction === null) throw new Error(`job ${id} is refunded without a transaction`)
      return { state: 'resolved', outcome: resolution, transaction: refund_transaction }
    case 'paid_outside':
    case 'written_off':
      return { state: 'resolved', outcome: resolution }
    case 're_served':
      return result_body === null
        ? { state: 're_serving_ended' }
        : { state: 're_served', resultBody: result_body, catalogVersion: catalog_version }
    case 'forgiven':
      throw new Error(`the review of job ${id} cannot be forgiven`)
  }
}
