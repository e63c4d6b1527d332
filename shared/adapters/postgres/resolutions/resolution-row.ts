import type { ResolutionOutcome, ResolvableItem } from '#shared/jobs/resolution.ts'
import type { ResolutionRecord } from '#shared/operators/payment-record.ts'

/** The columns of a resolution, under names that no other table has. */
export const RESOLUTION = `resolutions.id AS resolution_id, resolutions.item AS resolution_item,
  resolutions.job_id AS resolution_job_id, resolutions.outcome, resolutions.amount AS resolution_amount,
  resolutions.reason AS resolution_reason, resolutions.operator, resolutions.resolved_at, resolutions.refund_transaction`

export interface ResolutionRow {
  readonly resolution_id: string | null
  readonly resolution_item: ResolvableItem
  readonly resolution_job_id: string | null
  readonly outcome: ResolutionOutcome
  readonly resolution_amount: string
  readonly resolution_reason: string
  readonly operator: string
  readonly resolved_at: Date
  readonly refund_transaction: string | null
}

export function resolutionRecord(row: ResolutionRow): ResolutionRecord {
  if (row.resolution_id === null) throw new Error('a resolution has an id')
  return {
    id: row.resolution_id,
    item: row.resolution_item,
    jobId: row.resolution_job_id,
    outcome: row.outcome,
    amount: BigInt(row.resolution_amount),
    reason: row.resolution_reason,
    operator: row.operator,
    resolvedAt: row.resolved_at,
    refundTransaction: row.refund_transaction,
  }
}
