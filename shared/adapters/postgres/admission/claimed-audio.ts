import type { ClaimOfBinding } from '#shared/jobs/admission-store.ts'
import type { MeasuredAudio } from '#shared/operations/operation.ts'

/** The column `claimed_audio`, with the names of the request. */
export interface ClaimColumn {
  readonly sha256: string
  readonly bytes: number
  readonly duration_ms: number
  /** Present once the key is bound to another recording than the claimed one. */
  readonly is_replaced?: true
}

/** Returns the value of the column for a claim, or for none. */
export function claimColumn(claim: MeasuredAudio | null | undefined): ClaimColumn | null {
  return claim ? { sha256: claim.sha256, bytes: claim.bytes, duration_ms: claim.durationMs } : null
}

export function claimFromColumn(column: ClaimColumn | null): ClaimOfBinding | null {
  if (!column) return null
  const { sha256, bytes, duration_ms: durationMs, is_replaced: isReplaced = false } = column
  return { audio: { sha256, bytes, durationMs }, isReplaced }
}
