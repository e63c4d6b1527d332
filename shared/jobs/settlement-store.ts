import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { GasSpent, PreparedCharge, SignedTransaction } from '#shared/payment/facilitator.ts'
import type { Receipt } from '#shared/payment/receipt.ts'
import type { UnknownSettlement } from '#shared/payment/settlement-search.ts'
import type { ClaimedJob, Failure, PaymentResponse, StoredSettlement, StoredTransaction, Written } from './job.ts'

type Hex = `0x${string}`

/** When the payer owes the charge of a settlement that failed. */
export type Debt =
  /** Unless the authorization expired first, which is the service's fault. */
  | 'unless_expired'
  /** Unless it expired before the payment itself prevented its settlement; an expiry after that excuses nothing. */
  | 'unless_expired_before_block'
  | 'none'

/**
 * The settlement of one job: with our own keys, or through a remote facilitator. Every write is fenced by the job's
 * claim.
 */
export interface JobSettlementStore {
  /**
   * Moves generated → settling: takes the next account nonce and stores the transaction signed for it, before anything
   * is sent. Refuses a job with an earlier settlement that is not in `lookedUp`: after a reorganization that one may
   * have charged the payer.
   */
  recordSettlement(
    job: ClaimedJob,
    settlement: {
      chargeAmount: AtomicAmount
      minimumAccountNonce: bigint
      sign(accountNonce: bigint): Promise<SignedTransaction>
      /** Ids of earlier settlements of this job that cannot charge the payer any more. */
      lookedUp?: readonly string[]
    },
  ): Promise<RecordingOutcome>
  /**
   * Moves the jobs of a batch generated → settling: takes one account nonce of its key and stores the transaction that
   * settles all of them through the settlement contract. Those that are stale or were settled before are left out of it;
   * nothing is signed when none is left. One outcome for each, in their order. If one of them cannot be written, its
   * outcome is the error, and the others are recorded in smaller batches.
   */
  recordBatch(recordings: readonly BatchRecording[], batch: NewBatch): Promise<readonly (RecordingOutcome | Error)[]>
  /** Returns the settlements of the job's earlier authorizations, none of which had charged the payer when it ended. */
  readEarlierSettlements(job: ClaimedJob): Promise<readonly EarlierSettlement[]>
  /**
   * Moves generated → settling with an earlier settlement that charged the payer after all. The job's current
   * authorization is left unsettled.
   */
  adoptSettlement(job: ClaimedJob, earlier: EarlierSettlement): Promise<Written>
  readSettlement(job: ClaimedJob): Promise<StoredSettlement>
  /** Stays settling: signs a settlement for the next account nonce after its own was used outside this ledger. */
  renewSettlement(
    job: ClaimedJob,
    renewal: {
      settlementId: string
      usedAccountNonce: bigint
      minimumAccountNonce: bigint
      sign(accountNonce: bigint): Promise<SignedTransaction>
    },
  ): Promise<Written | 'queue_full'>
  /**
   * Stays settling: signs settlements together for another account nonce, after the transactions of their batches can
   * no longer settle them. Each is guarded by its job's fence and by the batch that it leaves, so that it moves once;
   * one that is not open in that batch is an error. Errors as for `recordBatch`.
   */
  renewBatch(
    renewals: readonly BatchRenewal[],
    batch: NewBatch,
  ): Promise<readonly (StoredSettlement | 'stale' | 'queue_full' | Error)[]>
  /** Gives up a transaction that no node takes: a filler uses up its account nonce, and its payments are signed again. */
  abandonBatch(batchId: string): Promise<void>
  /**
   * Stores what a batch cost that reverted as a whole, by the hash of the transaction that was mined. Returns whether it
   * was not stored yet.
   */
  recordRevertedBatch(transactionHash: string, gas: GasSpent): Promise<boolean>
  /**
   * Moves settling → completed: settlement, receipt and payment response in one transaction; notifies the waiting API.
   */
  completeJob(
    job: ClaimedJob,
    completion: {
      settlementId: string
      transactionHash: string
      blockNumber: bigint
      blockHash: string
      /** Stored for a settlement with one of our own keys. */
      gas?: GasSpent
      receipt: Receipt
      receiptSecretId: string
      paymentResponse: PaymentResponse
    },
  ): Promise<Written>
  /** Moves generated or settling → settlement_failed: the result is withheld. Owed unless expired by default. */
  failSettlement(job: ClaimedJob, failure: SettlementFailure, debt?: Debt): Promise<Written>
  /** Moves an unfinished job → review. */
  markForReview(job: ClaimedJob, reason: string): Promise<Written>
  /** Records a settlement that the ledger does not know, once for each payment, for a person. */
  recordUnknownSettlement(settlement: UnknownSettlement): Promise<void>
}

/** The key that sends a batch, and how its transaction is signed. */
export interface NewBatch {
  readonly account: SettlementAccount
  /** The settlement contract, in lower case. */
  readonly contract: Hex
  readonly minimumAccountNonce: bigint
  /**
   * Called inside the database transaction, with those that are recorded: once, unless they cannot be written together.
   */
  sign(charges: readonly PreparedCharge[], accountNonce: bigint): Promise<SignedTransaction>
}

/** A job that is settled in a batch. */
export interface BatchRecording {
  readonly job: ClaimedJob
  readonly charge: PreparedCharge
  /** Ids of earlier settlements of this job that cannot charge the payer any more. */
  readonly lookedUp?: readonly string[]
}

/** A settlement that moves from its batch to another one. */
export interface BatchRenewal {
  readonly job: ClaimedJob
  readonly charge: PreparedCharge
  readonly settlementId: string
  readonly leavesBatch: string
}

/** A charge whose result was released, and how its next transaction is signed. */
export interface ReleasedRenewal extends Omit<NewBatch, 'contract'> {
  /** `null` when the key settles directly. */
  readonly contract: Hex | null
  readonly charge: PreparedCharge
}

/**
 * `settled_before`: an earlier settlement of the job was not looked up. `queue_full`: the key has as many unmined
 * transactions as nodes hold, so nothing was signed; it can once the chain has mined one.
 */
export type RecordingOutcome = StoredSettlement | 'stale' | 'settled_before' | 'queue_full'

/** A block whose state proves that a settlement cannot succeed, for as long as the chain contains it. */
export interface JudgedBlock {
  readonly number: bigint
  readonly hash: string
}

/** Why a settlement failed. Without a block that proves it, its transactions are watched until there is one. */
export interface SettlementFailure extends Failure {
  readonly judgedAt?: JudgedBlock | null
  /** What reverted transactions cost a key of our own: uncharged work of the payer. */
  readonly gas?: GasSpent | null
}

/** A settlement of an authorization that the payer replaced by a later one. */
export interface EarlierSettlement {
  readonly settlementId: string
  readonly authorizationId: string
  readonly authorization: Authorization
  readonly chargeAmount: AtomicAmount
  readonly settledBy: 'own_key' | 'remote_facilitator'
  /** Newest first; without sender and account nonce where a remote facilitator signed them. */
  readonly transactions: readonly {
    readonly hash: Hex
    readonly sender: Hex | null
    readonly accountNonce: bigint | null
  }[]
  /** Transactions that only fill the nonce gap which a failed settlement left: with one of them mined, none of it can be. */
  readonly fillers: readonly { readonly hash: Hex; readonly sender: Hex; readonly accountNonce: bigint }[]
  /** No transaction of this settlement is in an earlier block. */
  readonly firstBlock: bigint
  /** `failed_finally`: a final block proves it. `charged`: it is known to have charged the payer. */
  readonly known: 'failed_finally' | 'failed' | 'charged'
}

/** A settlement requested, or to be requested, from a remote facilitator. */
export interface RemoteSettlement {
  readonly settlementId: string
  readonly recordedBlock: bigint
  /** Transactions named by the facilitator, newest first. */
  readonly hashes: readonly Hex[]
  /** Number of requests whose outcome is unknown. */
  readonly unansweredRequests: number
  /** Time since the latest request, by the ledger's clock; `null` before the first one. */
  readonly sinceRequestMs: number | null
}

/** Settlements through a remote facilitator. Every write is fenced by the job's claim. */
export interface RemoteSettlementStore {
  /** Moves generated → settling: records the charge to request, before anything is requested. */
  recordRemoteSettlement(
    job: ClaimedJob,
    settlement: { chargeAmount: AtomicAmount; recordedBlock: bigint },
  ): Promise<Written>
  /** Returns `null` when the job's settlement was signed with one of our own keys. */
  readRemoteSettlement(job: ClaimedJob): Promise<RemoteSettlement | null>
  /** Counts a request as unanswered; written before it is sent. */
  recordSettlementRequest(job: ClaimedJob, settlementId: string): Promise<Written>
  /** Counts the request as answered: with the transaction that the facilitator named, or with nothing sent. */
  recordSettlementAnswer(job: ClaimedJob, settlementId: string, hash: Hex | null): Promise<Written>
}

/**
 * The most transactions of a key that are signed and not mined. reth, which Base runs, holds 16 of one sender unless its
 * operator changed `--txpool.max-account-slots`, and refuses more.
 */
export const MOST_UNMINED_NONCES = 16

/** One settlement key on one network. */
export interface SettlementAccount {
  readonly network: string
  readonly facilitator: Hex
}

/** The newest transaction of one account nonce. */
export interface QueuedTransaction extends StoredTransaction {
  readonly ageMs: number
  /** Whether its settlement or permit has failed: the payer was notified, so the transaction must not be mined. */
  readonly isAbandoned: boolean
  /** The most that it may cost, for a sponsored permit; `null` for all others. */
  readonly maximumCostWei: bigint | null
}

/** The unmined transactions of an account, starting at the next account nonce on chain. */
export interface NonceQueue {
  /** How long the ledger has known that nonce to be the next one. */
  readonly headAgeMs: number
  /** The first account nonce that is not taken; the queue is empty when the chain's next nonce equals it. */
  readonly nextAccountNonce: bigint
  /**
   * Number of account nonces newly found used on chain that this ledger did not take: someone else sends with the key.
   */
  readonly usedElsewhere: number
  /** In order of account nonce, at most one batch. */
  readonly transactions: readonly QueuedTransaction[]
  /** By account nonce, the transactions that a receipt names, if a reorganization took them off the chain. */
  readonly released: ReadonlyMap<bigint, SignedTransaction>
}

/**
 * The transactions of each settlement key, in order of account nonce. Writes need no job's fence: a transaction added
 * here shares its account nonce with those it replaces, so at most one of them is ever mined.
 */
export interface NonceQueueStore {
  /**
   * Takes the lease on an account's nonce queue; `false` while another process has it, or when there is nothing to do
   * yet.
   */
  leaseNonceQueue(account: SettlementAccount, leaseMs: number): Promise<boolean>
  releaseNonceQueue(account: SettlementAccount): Promise<void>
  /** Returns the first account nonce that is not taken; `null` for a key that this ledger never settled with. */
  readNextAccountNonce(account: SettlementAccount): Promise<bigint | null>
  /** Stores the chain's transaction count and returns the queue behind it. */
  readNonceQueue(account: SettlementAccount, accountNonceCount: bigint): Promise<NonceQueue>
  /** Stores a replacement transaction for the same settlement and account nonce; the replaced one stays. */
  addReplacement(replacedHash: Hex, replacement: SignedTransaction): Promise<void>
  /** Gives up the sponsored permit of a transaction, so that a filler uses up its account nonce. */
  abandonPermit(hash: Hex): Promise<void>
  /**
   * Stores a filler for an account nonce without a usable transaction; returns `false` when the nonce has one after
   * all.
   */
  fillGap(account: SettlementAccount, accountNonce: bigint, filler: SignedTransaction): Promise<boolean>
}

/** A block with confirmed settlements. `hash` is `null` where only the number was stored. */
export interface SettledBlock {
  readonly number: bigint
  readonly hash: string | null
}

/** A confirmed settlement whose block is not final. */
export interface UnfinalSettlement {
  readonly settlementId: string
  readonly jobId: string
  readonly authorization: Authorization
  readonly chargeAmount: AtomicAmount
  readonly block: SettledBlock
  /** The one of `transactions` that its receipt names. */
  readonly transactionHash: string
  /** Newest first. */
  readonly transactions: readonly StoredTransaction[]
}

/** A confirmed settlement by a remote facilitator whose block is not final. */
export interface UnfinalRemoteSettlement {
  readonly settlementId: string
  readonly jobId: string
  readonly authorization: Authorization
  readonly chargeAmount: AtomicAmount
  readonly recordedBlock: bigint
  readonly block: SettledBlock
}

/** A settlement that was ended as failed, by facts of a block that is not final. */
export interface FailedSettlement {
  readonly settlementId: string
  readonly jobId: string
  readonly authorization: Authorization
  readonly chargeAmount: AtomicAmount
  /** Of a remote facilitator's settlement; else `null`. */
  readonly recordedBlock: bigint | null
  /** The block that proves the failure; `null` when there is none at present. */
  readonly judgedAt: JudgedBlock | null
  /** Newest first; empty for those of a remote facilitator. */
  readonly transactions: readonly StoredTransaction[]
  /** Transactions that a remote facilitator named; empty for those of own keys. */
  readonly namedHashes: readonly Hex[]
}

/** The transaction and block that prove a settlement. */
export interface SettledAt {
  readonly transactionHash: string
  readonly blockNumber: bigint
  readonly blockHash: string
}

/** Settlements that are decided by a block, until that block is final. Completed jobs stay completed. */
export interface FinalityStore {
  /**
   * Returns the newest blocks that decided settlements, confirmed or failed, and the oldest of those up to
   * `finalizedNumber`.
   */
  findUnfinalBlocks(finalizedNumber: bigint): Promise<readonly SettledBlock[]>
  /** Returns confirmed settlements in this block and later ones, oldest block first, at most `limit`. */
  readUnfinal(fromNumber: bigint, limit: number): Promise<readonly UnfinalSettlement[]>
  /** Returns the newest confirmed settlements by a remote facilitator, at most `limit`. */
  readUnfinalRemote(limit: number): Promise<readonly UnfinalRemoteSettlement[]>
  /**
   * Returns failed settlements of own keys, or of a remote facilitator, at most `limit`: those judged at this block and
   * later ones or, with `null`, those that no block of the chain has judged yet.
   */
  readFailed(
    settledBy: 'own_key' | 'remote_facilitator',
    fromNumber: bigint | null,
    limit: number,
  ): Promise<readonly FailedSettlement[]>
  /** Stores the block that proves the failure of a failed settlement, or `null` when there is none at present. */
  judgeFailed(settlementId: string, judgedAt: JudgedBlock | null): Promise<void>
  /**
   * Handles a failed settlement that charged the payer after all. `reopened`: the job waited for another payment, and
   * moves settlement_failed → settling to be completed with this one. `open`: the job is being worked on, and looks at
   * its earlier settlements before it settles. `surplus`: the job was paid by another settlement or has no result, so a
   * person must decide.
   */
  reopenSettlement(settlementId: string, settledAt: SettledAt): Promise<'reopened' | 'open' | 'surplus'>
  /** Marks the settlements that these blocks decided as final. Returns their number. */
  markFinal(blockHashes: readonly string[]): Promise<number>
  /** Moves a confirmed settlement to another block after a reorganization. A final one does not move. */
  moveSettlement(settlementId: string, to: SettledAt): Promise<void>
  /**
   * Stays confirmed: signs a settlement that a reorganization removed, and whose transactions cannot be mined any more, for
   * another account nonce. Returns `null` when it is final by now, or when another process has done so.
   */
  renewReleased(
    settlement: Pick<UnfinalSettlement, 'settlementId' | 'transactions'>,
    renewal: ReleasedRenewal,
  ): Promise<StoredTransaction | null>
  /**
   * Moves confirmed → lost: a reorganization removed it and it can no longer be settled. The job stays completed. Returns
   * `false` when another process has signed it again since the transactions were read that were `judged`: that may have
   * settled it, and used the nonce of its payer.
   */
  loseSettlement(settlementId: string, reason: string, judged?: readonly StoredTransaction[]): Promise<boolean>
}

/** The workers' access to settlements. */
export interface SettlementStore extends JobSettlementStore, RemoteSettlementStore, NonceQueueStore, FinalityStore {}
