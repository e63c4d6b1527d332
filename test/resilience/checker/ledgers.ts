import type { JobState } from '#shared/jobs/job.ts'

/**
 * The client's record of one paid call, written as it happens and independent of the service.
 */
export interface CallRecord {
  /** Identifies the call in a violation. */
  readonly callId: string
  readonly idempotencyKey: string
  /** Path of the endpoint, such as `/v1/images/generations`. */
  readonly path: string
  /**
   * Identifies the call at the upstream: a text of the form `call-<uuid>` inside the prompt, or the SHA-256 of the
   * audio in lower-case hex.
   */
  readonly marker: string
  /** Lower case. */
  readonly payer: string
  /** Every answer that arrived completely, in order. */
  readonly answers: CallerAnswer[]
  /** Permit2 nonces that the client signed for this call, as decimal strings. */
  readonly nonces: string[]
  /** Problems on the client's side, such as a chain that it could not read for signing; it continues. */
  readonly problems: string[]
  /** Set when the client has its final answer; `gave_up` when it ran out of patience. */
  outcome: 'released' | 'refused' | 'gave_up' | null
  /** Milliseconds since 1970 from which the chain would certainly have rejected every payment of this call. */
  unpayableSince: number | null
  /** Whether the payer did something that may prevent a settlement from being mined again after a reorganization. */
  hindersSettlement: boolean
}

/** One answer to a paid request. */
export interface CallerAnswer {
  /** When it had arrived completely, in milliseconds since 1970. */
  readonly receivedAt: number
  readonly status: number
  /** `error.code` of a failure. */
  readonly code: string | null
  readonly bodySha256: string
  /** The body of a success in JSON, and of every failure. */
  readonly bodyText: string | null
  readonly receiptId: string | null
  /** `transaction` and `amount` of `PAYMENT-RESPONSE`. */
  readonly transaction: string | null
  readonly amount: string | null
  /**
   * Whether the chain had a successful receipt of `transaction` immediately after the answer; `null` for answers
   * without a transaction, and when the chain could not be read.
   */
  readonly wasMined: boolean | null
}

/** A USDC transfer to the recipient. */
export interface ChainTransfer {
  readonly transactionHash: string
  readonly from: string
  readonly amount: bigint
  /** The payment nonce that the settlement contract reports after it; `null` in a transaction of one payment. */
  readonly nonce: string | null
}

/** What the settlement contract reports of one payment of a batch. */
export interface ReportedPayment {
  readonly payer: string
  readonly nonce: string
  readonly isSettled: boolean
}

/** A mined transaction of the settlement contract. */
export interface MinedBatch {
  readonly transactionHash: string
  /** Whether all of it was reverted, which says nothing about any of its payments. */
  readonly isReverted: boolean
  readonly gasUsed: bigint
  readonly payments: readonly ReportedPayment[]
}

/** A settlement key on chain. */
export interface SettlementKey {
  readonly address: string
  /** Number of its mined transactions, and of its mined or pending ones. */
  readonly minedCount: number
  readonly pendingCount: number
}

/** One call in the upstream's log. */
export interface UpstreamLedgerCall {
  /** Unique in the log, across restarts of the simulator. */
  readonly id: string
  /** Milliseconds since 1970. */
  readonly arrivedAt: number
  readonly route: string
  /** Whether the vendor began to work and may therefore bill. */
  readonly started: boolean
  readonly status: number | null
  /** That of its call record; `null` when it has none, as a request that was never read. */
  readonly marker: string | null
}

export interface JobEntry {
  readonly id: string
  readonly idempotencyKey: string
  readonly state: JobState
  readonly payer: string
  readonly authorizationId: string
  readonly stagedUploadId: string | null
  readonly quotedMaximum: bigint
  readonly chargeAmount: bigint | null
  readonly resultBody: string | null
  readonly resultDigest: string | null
  readonly receiptId: string | null
  readonly failureCode: string | null
  readonly failureReason: string | null
}

export interface AuthorizationEntry {
  readonly id: string
  readonly jobId: string
  readonly payer: string
  readonly nonce: string
  /** Of the permit that it brings, which is of use once; `null` without one. */
  readonly permitNonce: string | null
  readonly authorizedMaximum: bigint
}

export interface AttemptEntry {
  readonly id: string
  readonly jobId: string
  readonly authorizationId: string
  readonly state: 'open' | 'succeeded' | 'failed_definite' | 'failed_empty' | 'failed_ambiguous'
  readonly startedAt: number
}

export interface SettlementEntry {
  readonly id: string
  readonly jobId: string
  readonly authorizationId: string
  /** That of the payment. */
  readonly payer: string
  readonly nonce: string
  readonly facilitator: string
  readonly accountNonce: number
  /** The batch that it is in, and how many it was in before. */
  readonly batchId: string | null
  readonly batchesLeft: number
  readonly chargeAmount: bigint
  /** Its part of the gas of its transaction; `null` while it is not known. */
  readonly gasUsed: bigint | null
  readonly state: string
  readonly transactionHash: string | null
  /** Milliseconds since 1970; `null` while it is open. */
  readonly finishedAt: number | null
  /** The hashes of all transactions signed for it, alone or in a batch. */
  readonly hashes: readonly string[]
}

export interface ReceiptEntry {
  readonly id: string
  readonly jobId: string
  readonly chargeAtomic: string
  readonly transaction: string
  readonly resultDigest: string
}

export interface MediaEntry {
  readonly jobId: string
  readonly objectKey: string
  readonly sha256: string
}

export interface StagedUploadEntry {
  readonly id: string
  readonly jobId: string
  readonly objectKey: string
  readonly hasDataKey: boolean
  readonly isPastExpiry: boolean
  /** How long ago its key was erased, by PostgreSQL's clock; `null` while it has a key. */
  readonly erasedForMs: number | null
}

export interface DatabaseLedger {
  readonly jobs: readonly JobEntry[]
  readonly authorizations: readonly AuthorizationEntry[]
  readonly attempts: readonly AttemptEntry[]
  readonly settlements: readonly SettlementEntry[]
  readonly receipts: readonly ReceiptEntry[]
  readonly media: readonly MediaEntry[]
  readonly stagedUploads: readonly StagedUploadEntry[]
  /** The next account nonce of each key, by lower-case address. */
  readonly nextAccountNonces: Readonly<Record<string, number>>
}

/** A file of the object store. `holdsPlaintext`: it contains a run of bytes from a client's audio. */
export interface StoredObject {
  readonly key: string
  readonly sha256: string
  readonly ageMs: number
  readonly holdsPlaintext: boolean
}

/** The answer to a released or charged call that was repeated once the system was idle. */
export interface Replay {
  readonly callId: string
  /** `null` when no answer came. */
  readonly answer: CallerAnswer | null
  /** The media that its body references, as fetched; SHA-256 `null` when that failed. */
  readonly media: readonly { readonly url: string; readonly sha256: string | null }[]
}

/** The five ledgers of an idle system. All addresses and hashes are in lower case. */
export interface Ledgers {
  readonly chain: {
    readonly transfers: readonly ChainTransfer[]
    /** The mined ones of those that the ledger signed. */
    readonly batches: readonly MinedBatch[]
    readonly recipientBalance: bigint
    readonly keys: readonly SettlementKey[]
    /** When it was reorganized, in milliseconds since 1970. */
    readonly reorganizedAt: readonly number[]
  }
  readonly upstream: readonly UpstreamLedgerCall[]
  readonly database: DatabaseLedger
  readonly objects: readonly StoredObject[]
  readonly clients: { readonly calls: readonly CallRecord[]; readonly replays: readonly Replay[] }
}

export interface Violation {
  readonly invariant: 'I1' | 'I2' | 'I3' | 'I4' | 'I5' | 'I6' | 'liveness' | 'nonce-gap' | 'gas' | 'blame'
  /** `null` for violations that concern no job. */
  readonly jobId: string | null
  readonly detail: string
}
