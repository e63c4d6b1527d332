import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { ClaimedJob } from './job.ts'
import type { Written } from './job-store.ts'
import type { SettledBlock } from './settlement-store.ts'

/** A settlement that a remote facilitator was or will be asked for. */
export interface RemoteSettlement {
  readonly settlementId: string
  readonly recordedBlock: bigint
  /** Transactions that the facilitator named, newest first. */
  readonly hashes: readonly `0x${string}`[]
  /** Requests whose outcome is unknown. */
  readonly unansweredRequests: number
  /** How long ago it was asked last, by the ledger's clock; `null` when never. */
  readonly sinceRequestMs: number | null
}

/** A confirmed settlement of a remote facilitator whose block may be replaced still. */
export interface UnfinalRemoteSettlement {
  readonly settlementId: string
  readonly jobId: string
  readonly authorization: Authorization
  readonly chargeAmount: AtomicAmount
  readonly recordedBlock: bigint
  readonly block: SettledBlock
}

/** What a worker writes about settlements by a remote facilitator. Every write is fenced. */
export interface RemoteSettlementStore {
  /** generated → settling: what will be asked for, before anyone is asked. */
  recordRemoteSettlement(
    job: ClaimedJob,
    settlement: { chargeAmount: AtomicAmount; recordedBlock: bigint },
  ): Promise<Written>
  /** `null` when the job's settlement was signed with a key of our own. */
  readRemoteSettlement(job: ClaimedJob): Promise<RemoteSettlement | null>
  /** Counts a request as unanswered; written before it is sent. */
  noteSettlementRequest(job: ClaimedJob, settlementId: string): Promise<Written>
  /** The request ended: with the transaction it named, or with nothing sent. */
  noteSettlementAnswer(job: ClaimedJob, settlementId: string, hash: `0x${string}` | null): Promise<Written>
  /** The newest confirmed ones, at most `limit`. */
  readUnfinalRemote(limit: number): Promise<readonly UnfinalRemoteSettlement[]>
}
