import type { AllowancePermit } from '#shared/payment/allowance-permit.ts'
import type { GasSpent, SignedTransaction } from '#shared/payment/facilitator.ts'
import type { SettlementAccount } from '#shared/payment/settlement-key.ts'
import type { StoredTransaction, Written } from './job.ts'

type Hex = `0x${string}`

/** What the service spends on the permits of owners. */
export interface SponsoringLimits {
  /** An owner's next permit is sponsored this long after the last one that cost gas, unless the service gave it up. */
  readonly perOwnerSeconds: number
  /** The most that all permits of the last 24 hours may cost, in wei. */
  readonly dailyGasWei: bigint
  /** The most that this permit may cost: its fees do not rise above that while it is pending. */
  readonly reservedGasWei: bigint
  /** What it is expected to cost, with a margin. It counts until its real cost is known. */
  readonly expectedGasWei: bigint
  /** The network of the caller, which has a share of what wallets that never paid may use; `null` when it is unknown. */
  readonly clientNetwork: string | null
  /** Read again immediately before a transaction is signed, in atomic units of the asset. */
  readonly minimumBalance: bigint
}

/** Why a sponsored permit ended without an allowance. */
export type AllowanceFailureCode =
  /** Its deadline has passed, or would pass before it is mined. */
  | 'permit_expired'
  /** Its nonce is used and the allowance does not suffice. */
  | 'permit_already_used'
  /** The asset refuses it. */
  | 'permit_rejected'
  | 'owner_has_code'
  | 'owner_balance_too_low'
  /** The settlement key has no gas to spare, or fees rose beyond what was reserved. */
  | 'gas_unavailable'
  | 'payment_network_unavailable'
  /** Mined without effect: the only one that costs gas. */
  | 'permit_reverted'

/** The state of a sponsored permit. Nothing of the owner's ever moves. */
export type AllowanceOutcome =
  | { readonly state: 'pending' }
  /** `transaction` is `null` when another submission of the permit came first. */
  | { readonly state: 'confirmed'; readonly transaction: Hex | null; readonly blockNumber: bigint }
  | { readonly state: 'failed'; readonly code: AllowanceFailureCode; readonly transaction: Hex | null }

export interface SponsoredPermit {
  readonly allowanceId: string
  readonly owner: Hex
  readonly value: bigint
  /** The nonce of the permit. */
  readonly nonce: bigint
  readonly requestedAt: Date
  readonly outcome: AllowanceOutcome
}

export type AllowanceRequest =
  /** `existing`: the same permit was requested before. One that failed without a cost is tried again: `accepted`. */
  | {
      readonly outcome: 'accepted' | 'existing'
      readonly allowanceId: string
      readonly state: AllowanceOutcome['state']
    }
  | SponsoringRefusal

/** `owner_limit`: another permit of the owner is in progress, or was sponsored lately. */
export interface SponsoringRefusal {
  readonly outcome: 'owner_limit' | 'ceiling_reached'
  readonly retryAfterSeconds: number
}

/**
 * The API's access to sponsored permits. A finished one is notified on commit as jobs are: its id on the channel of
 * outcomes.
 */
export interface AllowanceRequestStore {
  /**
   * Stores a permit that was verified and simulated, unless a limit forbids it. One transaction under one lock: two
   * requests with the same permit make one row, and concurrent ones cannot pass the ceiling together.
   */
  requestAllowance(
    permit: AllowancePermit & { readonly digest: Hex },
    limits: SponsoringLimits,
  ): Promise<AllowanceRequest>
  /** Returns which limit would refuse a permit of the owner now. Reads without a lock, so it promises nothing. */
  findSponsoringRefusal(
    owner: Hex,
    limits: Omit<SponsoringLimits, 'minimumBalance' | 'reservedGasWei'>,
  ): Promise<SponsoringRefusal | null>
  /** Returns whether a charge of this wallet was ever collected. */
  hasPaid(owner: Hex): Promise<boolean>
  findSponsoredPermit(digest: Hex): Promise<SponsoredPermit | null>
  /** Returns the owner's newest permit. */
  findLatestSponsored(owner: Hex): Promise<SponsoredPermit | null>
  /** Returns the outcomes of those that exist, by id. */
  readAllowanceOutcomes(allowanceIds: readonly string[]): Promise<ReadonlyMap<string, AllowanceOutcome>>
}

/** A permit that this worker holds under a lease. */
export interface ClaimedPermit {
  readonly allowanceId: string
  readonly fence: bigint
  readonly permit: AllowancePermit
  readonly reservedGasWei: bigint
  readonly minimumBalance: bigint
  readonly network: string
  /** How long ago it was requested. */
  readonly ageMs: number
  /** `null` until it is signed. */
  readonly signed: SignedPermit | null
}

/** The account nonce of a permit with every transaction that was signed for it. */
export interface SignedPermit {
  readonly account: SettlementAccount
  readonly accountNonce: bigint
  /** Those that submit the permit, newest first. */
  readonly transactions: readonly StoredTransaction[]
  /** Those that only use up the account nonce. */
  readonly fillers: readonly StoredTransaction[]
  readonly isAbandoned: boolean
}

/** What the mined transaction of an account nonce cost, and where. */
export interface MinedPermit {
  readonly transaction: Hex
  readonly blockNumber: bigint
  readonly blockHash: Hex
  readonly gas: GasSpent
  /** The same cost in wei of the native token. */
  readonly costWei: bigint
}

/** How Permit2 got the allowance. */
export type GrantedAllowance =
  | { readonly by: 'own_transaction'; readonly mined: MinedPermit }
  /** `mined`: what our own transaction cost, if one was mined without effect. */
  | { readonly by: 'other_submission'; readonly blockNumber: bigint; readonly mined: MinedPermit | null }

/** The workers' access to sponsored permits. Every write is fenced by the claim. */
export interface AllowanceWorkStore {
  /** Leases permits that are due, oldest first, and raises their fences. */
  claimAllowances(leaseMs: number, limit: number): Promise<readonly ClaimedPermit[]>
  renewAllowance(claim: ClaimedPermit, leaseMs: number): Promise<Written>
  /** Ends the lease; the permit is due again after `delayMs`. */
  releaseAllowance(claim: ClaimedPermit, delayMs: number): Promise<Written>
  /**
   * Moves requested → signed: takes the next account nonce of the key's nonce queue and stores the transaction signed
   * for it, before anything is sent. `queue_full`: the key has as many unmined transactions as nodes hold.
   */
  recordPermit(
    claim: ClaimedPermit,
    signing: {
      readonly account: SettlementAccount
      readonly minimumAccountNonce: bigint
      sign(accountNonce: bigint): Promise<SignedTransaction>
    },
  ): Promise<SignedPermit | 'stale' | 'queue_full'>
  /** Returns the current transactions of a signed permit: a sweeper may have replaced them. */
  readSignedPermit(allowanceId: string): Promise<SignedPermit | null>
  /** Moves requested or signed → confirmed. */
  confirmAllowance(claim: ClaimedPermit, granted: GrantedAllowance): Promise<Written>
  /** Moves requested or signed → failed; `mined` is what used up the account nonce of a signed one. */
  failAllowance(
    claim: ClaimedPermit,
    failure: { readonly code: AllowanceFailureCode; readonly reason: string },
    mined: MinedPermit | null,
  ): Promise<Written>
  /** Moves signed → requested, after its account nonce was used outside this ledger. */
  requestAgain(claim: ClaimedPermit): Promise<Written>
  /** Returns the newest blocks that decided permits and are not known to be final, and the oldest up to `finalizedNumber`. */
  findUnfinalAllowanceBlocks(
    finalizedNumber: bigint,
  ): Promise<readonly { readonly number: bigint; readonly hash: Hex }[]>
  markAllowancesFinal(blockHashes: readonly Hex[]): Promise<number>
  /** Moves permits that a removed block decided back to signed: they are sent and judged again. */
  reopenAllowances(blockHashes: readonly Hex[]): Promise<number>
}
