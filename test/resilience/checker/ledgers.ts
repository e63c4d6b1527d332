import type { JobState } from '#shared/jobs/job.ts'

/**
 * What one paid call left in its client's hands. A client writes it down as it happens, so that it holds whatever becomes of
 * the service.
 */
export interface CallRecord {
  /** Of the campaign; names the call in a violation. */
  readonly callId: string
  readonly idempotencyKey: string
  /** Path of the endpoint, such as `/v1/images/generations`. */
  readonly path: string
  /**
   * What the upstream sees of this call and of no other: a text of the form `call-<uuid>` inside the prompt, or the SHA-256 of
   * the audio in lower-case hex.
   */
  readonly marker: string
  /** Lower case. */
  readonly payer: string
  /** Every answer that arrived whole, in order. Lost connections leave none. */
  readonly answers: CallerAnswer[]
  /** Permit2 nonces that the client signed for this call, as decimal strings. */
  readonly nonces: string[]
  /** What went wrong on the client's own side, such as a chain that it could not read to sign; it goes on. */
  readonly problems: string[]
  /** Set when the client has its last word on the call; `gave_up` is a client that ran out of patience. */
  outcome: 'released' | 'refused' | 'gave_up' | null
  /** Milliseconds since 1970 from which on the chain would certainly have refused every payment of this call. */
  unpayableSince: number | null
}

/** One answer to a paid request. */
export interface CallerAnswer {
  /** Milliseconds since 1970 when it had arrived whole. */
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
   * Whether the chain had a successful receipt of `transaction` when the client looked, at once after the answer; `null` for
   * answers without a transaction and when the chain could not be asked.
   */
  readonly wasMined: boolean | null
}

/** A USDC transfer to the recipient. */
export interface ChainTransfer {
  readonly transactionHash: string
  readonly from: string
  readonly amount: bigint
}

/** One of our keys on chain. */
export interface SettlementKey {
  readonly address: string
  /** How many of its transactions are mined, and how many mined or waiting. */
  readonly minedCount: number
  readonly pendingCount: number
}

/** One call in the upstream's log. */
export interface UpstreamLedgerCall {
  /** Unique in the log, over restarts of the simulator too. */
  readonly id: string
  /** Milliseconds since 1970. */
  readonly arrivedAt: number
  readonly route: string
  /** Whether the vendor worked, and so might bill. */
  readonly started: boolean
  readonly status: number | null
  /** Of the call record that it belongs to; `null` when it carries none, as a request that was never read. */
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
}

export interface AuthorizationEntry {
  readonly id: string
  readonly jobId: string
  readonly payer: string
  readonly nonce: string
  readonly authorizedMaximum: bigint
}

export interface AttemptEntry {
  readonly id: string
  readonly jobId: string
  readonly authorizationId: string
  readonly state: 'open' | 'succeeded' | 'failed_definite' | 'failed_ambiguous'
  /** A whole answer with nothing in it: a definite failure that no status gives away. */
  readonly isEmptyAnswer: boolean
  readonly startedAt: number
}

export interface SettlementEntry {
  readonly id: string
  readonly jobId: string
  readonly authorizationId: string
  readonly facilitator: string
  readonly accountNonce: number
  readonly chargeAmount: bigint
  readonly state: string
  readonly transactionHash: string | null
  /** Milliseconds since 1970; `null` while it is open. */
  readonly finishedAt: number | null
  /** Of every transaction ever signed for it. */
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
  readonly isPastItsHour: boolean
  /** How long ago its key was erased, by PostgreSQL's clock; `null` while it has one. */
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

/** A file of the object store. `holdsPlaintext` says that it contains a run of bytes of some client's audio. */
export interface StoredObject {
  readonly key: string
  readonly sha256: string
  readonly ageMs: number
  readonly holdsPlaintext: boolean
}

/** What the service gave when a released or charged call was asked for once more after everything was quiet. */
export interface Replay {
  readonly callId: string
  /** `null` when no answer came. */
  readonly answer: CallerAnswer | null
  /** The media that its body points to, as fetched: `null` SHA-256 when that failed. */
  readonly media: readonly { readonly url: string; readonly sha256: string | null }[]
}

/** The five ledgers, read after everything was quiet. All addresses and hashes in lower case. */
export interface Ledgers {
  readonly chain: {
    readonly transfers: readonly ChainTransfer[]
    readonly recipientBalance: bigint
    readonly keys: readonly SettlementKey[]
    /** When it was reorganised, in milliseconds since 1970. */
    readonly reorganizedAt: readonly number[]
  }
  readonly upstream: readonly UpstreamLedgerCall[]
  readonly database: DatabaseLedger
  readonly objects: readonly StoredObject[]
  readonly clients: { readonly calls: readonly CallRecord[]; readonly replays: readonly Replay[] }
}

export interface Violation {
  readonly invariant: 'I1' | 'I2' | 'I3' | 'I4' | 'I5' | 'I6' | 'liveness' | 'nonce-gap'
  /** `null` for what belongs to no job. */
  readonly jobId: string | null
  readonly detail: string
}
