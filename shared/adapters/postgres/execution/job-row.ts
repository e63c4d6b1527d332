import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { ClaimedJob, SealedResult } from '#shared/jobs/job.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import { storedAuthorizationSchema } from '#shared/payment/authorization.ts'

/** The columns of a claimed job; node-postgres returns numeric and bigint as strings. */
export interface ClaimedJobRow {
  id: string
  operation: string
  public_model: string
  request_digest: string
  effective_request: string | null
  request_bytes: number
  quoted_maximum: string
  catalog_version: string
  terms: JsonValue
  authorization_id: string
  signed: unknown
  staged_upload_id: string | null
  accepted_at: Date
  state: ClaimedJob['state']
  fence: string
  is_new_payer: boolean
  /** Only returned by a claim, as are the next two. */
  waited_ms?: number
  deferred_ms?: number
  payment_blocked_ms?: number
  request_id: string | null
  traceparent: string | null
  usage: Record<string, number> | null
  charge_amount: string | null
  result_digest: string | null
}

type ComputedColumn =
  | 'signed'
  | 'request_bytes'
  | 'effective_request'
  | 'waited_ms'
  | 'deferred_ms'
  | 'payment_blocked_ms'

/**
 * A longer effective request is read once there is memory for it; all jobs that wait for memory are claimed.
 * `octet_length` does not read the text itself.
 */
const LONG_REQUEST_BYTES = 32 * 1024

/** Listed one by one: a column added by a later migration must not change the result of a prepared statement. */
const CLAIMED_COLUMNS = {
  id: true,
  operation: true,
  public_model: true,
  request_digest: true,
  quoted_maximum: true,
  catalog_version: true,
  terms: true,
  authorization_id: true,
  staged_upload_id: true,
  accepted_at: true,
  state: true,
  fence: true,
  is_new_payer: true,
  request_id: true,
  traceparent: true,
  usage: true,
  charge_amount: true,
  result_digest: true,
} satisfies Record<Exclude<keyof ClaimedJobRow, ComputedColumn>, true>

/** The select list over `jobs` and `authorizations` that `claimedJobFromRow` reads. */
export const CLAIMED_JOB = [
  ...Object.keys(CLAIMED_COLUMNS).map((name) => `jobs.${name}`),
  'coalesce(octet_length(jobs.effective_request), 0) AS request_bytes',
  `CASE WHEN octet_length(jobs.effective_request) <= ${LONG_REQUEST_BYTES} THEN jobs.effective_request END AS effective_request`,
  'authorizations.signed',
].join(', ')

export function claimedJobFromRow(row: ClaimedJobRow): ClaimedJob {
  return {
    id: row.id,
    operation: row.operation,
    publicModel: row.public_model,
    requestDigest: row.request_digest,
    effectiveRequest: row.effective_request === null ? null : (JSON.parse(row.effective_request) as JsonValue),
    requestBytes: row.request_bytes,
    quotedMaximum: atomicAmount(BigInt(row.quoted_maximum)),
    catalogVersion: row.catalog_version,
    terms: row.terms,
    authorizationId: row.authorization_id,
    authorization: storedAuthorizationSchema.parse(row.signed),
    stagedUploadId: row.staged_upload_id,
    acceptedAt: row.accepted_at,
    state: row.state,
    fence: BigInt(row.fence),
    waitedMs: row.waited_ms ?? 0,
    deferredMs: row.deferred_ms ?? 0,
    paymentBlockedMs: row.payment_blocked_ms ?? 0,
    origin: { requestId: row.request_id, traceparent: row.traceparent },
    sealed: sealedFromRow(row),
    settlement: null,
    isNewPayer: row.is_new_payer,
  }
}

function sealedFromRow({ usage, charge_amount, result_digest }: ClaimedJobRow): SealedResult | null {
  if (usage === null || charge_amount === null || result_digest === null) return null
  return {
    usage,
    chargeAmount: atomicAmount(BigInt(charge_amount)),
    resultDigest: result_digest,
  }
}
