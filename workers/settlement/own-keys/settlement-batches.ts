import type { StoredSettlement } from '#shared/jobs/job.ts'
import type { RecordingOutcome } from '#shared/ledger/settlement/move-to-settling.ts'
import type { BatchRecording } from '#shared/ledger/settlement/record-batch.ts'
import type { BatchRenewal } from '#shared/ledger/settlement/renew-batch.ts'
import type { SettlementDispatch } from './choose-batch.ts'

/** `outdated`: it was prepared too long ago. Its payer may have spent the money since, and fees may have risen. */
export type PaymentOutcome = RecordingOutcome | 'outdated'

/** The batches of this process. */
export interface SettlementBatches {
  /**
   * Moves generated → settling in a batch with those that are ready at the same time or, without a contract, alone. Waits
   * in line while the key has as many unmined transactions as nodes hold. `outdated`: it must be prepared again, and
   * keeps its place by `waitsSinceMs`.
   */
  record(recording: BatchRecording, dispatch: SettlementDispatch): Promise<Exclude<PaymentOutcome, 'queue_full'>>
  /** Stays settling: signs again in another batch, of at most `mostPayments`. */
  renew(renewal: BatchRenewal, dispatch: SettlementDispatch, mostPayments: number): Promise<StoredSettlement | 'stale'>
  /**
   * Gives up a batch that is too large for every node, so that its payments can be signed again. Those of this process are
   * at most half as large for the next hour. Safe to repeat.
   */
  refuse(batchId: string): Promise<void>
  /** Counts a batch as out until the returned function is called; each of its payments does so. */
  follow(batchId: string): () => void
  readState(): BatchesState
}

/** For the metrics. */
export interface BatchesState {
  /** Batches whose payments this process follows. */
  readonly out: number
  /** Payments that wait because their key has no account nonce left. */
  readonly withoutNonce: number
  /** How often batches were too large for every node. */
  readonly refused: number
  readonly gasLimit: bigint
}
