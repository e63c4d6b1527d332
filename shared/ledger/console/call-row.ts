import type { JobState } from '#shared/jobs/job.ts'
import type { CallSummary } from '#shared/operators/payment-record.ts'

/** The columns of a call in a list, of the table `jobs`. */
export const CALL = `jobs.id, jobs.request_id, jobs.operation, jobs.public_model, jobs.state, jobs.payer,
  jobs.quoted_maximum, jobs.charge_amount, jobs.is_owed, jobs.failure_code, jobs.accepted_at, jobs.finished_at`

export interface CallRow {
  readonly id: string
  readonly request_id: string | null
  readonly operation: string
  readonly public_model: string
  readonly state: JobState
  readonly payer: string
  readonly quoted_maximum: string
  readonly charge_amount: string | null
  readonly is_owed: boolean
  readonly failure_code: string | null
  readonly accepted_at: Date
  readonly finished_at: Date | null
}

export function callSummary(row: CallRow): CallSummary {
  return {
    jobId: row.id,
    requestId: row.request_id,
    operation: row.operation,
    model: row.public_model,
    state: row.state,
    payer: row.payer,
    quotedMaximum: BigInt(row.quoted_maximum),
    charge: amountOrNull(row.charge_amount),
    isOwed: row.is_owed,
    failureCode: row.failure_code,
    acceptedAt: row.accepted_at,
    finishedAt: row.finished_at,
  }
}

/** Parses a numeric column. */
export function amountOrNull(digits: string | null): bigint | null {
  return digits === null ? null : BigInt(digits)
}
