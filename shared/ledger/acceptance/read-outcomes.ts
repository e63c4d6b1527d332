import type { ErrorCode } from '#shared/errors/error-codes.ts'
import type { JobOutcome, JobState, PaymentResponse } from '#shared/jobs/job.ts'
import type { ResolutionOutcome } from '#shared/jobs/resolution.ts'
import { isUnfinished } from '#shared/jobs/transitions.ts'
import type { Sql } from '../pool.ts'

interface OutcomeRow {
  readonly id: string
  readonly state: JobState
  readonly catalogVersion: string
  readonly resultBody: string | null
  readonly isExpired: boolean
  readonly receiptId: string | null
  readonly receiptSecretId: string | null
  readonly receiptIssuedAt: string | null
  readonly paymentResponse: PaymentResponse | null
  readonly failureCode: ErrorCode | null
  readonly resolution: ResolutionOutcome | null
  readonly transaction: string | null
}

/**
 * Returns the outcomes of jobs by id, with an error in place of one that contradicts itself: the others are not its
 * matter. The result body is read only when it is returned, as it may be large.
 */
export async function readOutcomes(sql: Sql, jobIds: readonly string[]): Promise<Map<string, JobOutcome | Error>> {
  // With a list PostgreSQL plans every execution again, which takes longer than the read; nearly always there is one
  // id.
  const [condition, value] = jobIds.length === 1 ? ['= $1', jobIds[0]] : ['= ANY($1)', jobIds]
  const { rows } = await sql.query<OutcomeRow>({
    name: jobIds.length === 1 ? 'read_outcome' : 'read_outcomes',
    text: `SELECT jobs.id, state, catalog_version AS "catalogVersion", receipt_id AS "receiptId",
       token_secret_id AS "receiptSecretId", receipts.body->>'issued_at' AS "receiptIssuedAt",
       payment_response AS "paymentResponse", failure_code AS "failureCode",
       CASE WHEN state = 'completed' OR resolutions.outcome = 're_served' THEN result_body END AS "resultBody",
       result_expired_at IS NOT NULL AS "isExpired", resolutions.outcome AS resolution,
       refund_transaction AS transaction
     FROM jobs LEFT JOIN receipts ON receipts.id = jobs.receipt_id
     LEFT JOIN resolutions ON state = 'review' AND resolutions.job_id = jobs.id AND resolutions.item = 'review'
     WHERE jobs.id ${condition}`,
    values: [value],
  })
  return new Map(rows.map((row) => [row.id, outcomeOrError(row)]))
}

function outcomeOrError(row: OutcomeRow): JobOutcome | Error {
  try {
    return outcomeFromRow(row)
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error))
  }
}

function outcomeFromRow(row: OutcomeRow): JobOutcome {
  if (isUnfinished(row.state)) return { state: row.state }
  if (row.state === 'review') return reviewOutcome(row)
  if (row.state !== 'completed') {
    if (row.failureCode === null) throw new Error(`job ${row.id} failed without a code`)
    return { state: row.state, failureCode: row.failureCode }
  }
  const { state, resultBody, catalogVersion, receiptId, receiptSecretId, receiptIssuedAt: at, paymentResponse } = row
  if (receiptId === null || receiptSecretId === null || at === null || paymentResponse === null)
    throw new Error(`job ${row.id} is completed without receipt or payment`)
  if (row.isExpired) return { state: 'expired', receiptId }
  if (resultBody === null) throw new Error(`job ${row.id} is completed without result`)
  const receiptIssuedAt = new Date(at)
  return { state, resultBody, catalogVersion, receiptId, receiptSecretId, receiptIssuedAt, paymentResponse }
}

function reviewOutcome({ id, resolution, transaction, resultBody, catalogVersion }: OutcomeRow): JobOutcome {
  switch (resolution) {
    case null:
      return { state: 'review' }
    case 'refunded':
      if (transaction === null) throw new Error(`job ${id} is refunded without a transaction`)
      return { state: 'resolved', outcome: resolution, transaction }
    case 'paid_outside':
    case 'written_off':
      return { state: 'resolved', outcome: resolution }
    case 're_served':
      return resultBody === null ? { state: 're_serving_ended' } : { state: 're_served', resultBody, catalogVersion }
    case 'forgiven':
      throw new Error(`the review of job ${id} cannot be forgiven`)
  }
}
