import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { CurrentReceipt } from '#shared/payment/receipt.ts'
import type { JobState } from './job.ts'

/** Half-open, `from` ≤ t < `until`; `null` for no bound. */
export interface AccountPeriod {
  readonly from: Date | null
  readonly until: Date | null
}

/** A place in a list that is ordered by time and, within a microsecond, by id. */
export interface AccountPosition {
  readonly microseconds: bigint
  readonly id: string
}

/** A part of a list. */
export interface PageRequest {
  readonly limit: number
  /** The last entry of the page before; `null` for the first page. */
  readonly after: AccountPosition | null
}

export interface AccountPage<Entry> {
  readonly entries: readonly Entry[]
  /** Where the next page begins; `null` on the last one. */
  readonly next: AccountPosition | null
}

export interface AccountReceipt {
  readonly receipt: CurrentReceipt
  readonly idempotencyKey: string
}

/** The charges of one UTC day, model and operation. */
export interface DailySpend {
  /** `YYYY-MM-DD`. */
  readonly date: string
  readonly model: string
  readonly operation: string
  readonly calls: number
  readonly charge: AtomicAmount
}

/** A call that is not paid for: in progress, or completed and owed. */
export interface UnpaidCall {
  readonly idempotencyKey: string
  readonly requestId: string | null
  readonly operation: string
  readonly model: string
  readonly state: JobState
  readonly acceptedAt: Date
  readonly quotedMaximum: AtomicAmount
  /** `null` until the result exists. */
  readonly charge: AtomicAmount | null
}

/** A page of unpaid calls with the totals of the whole list: the charge, or the quoted maximum where none is fixed. */
export interface UnpaidCalls extends AccountPage<UnpaidCall> {
  readonly calls: number
  readonly total: AtomicAmount
}

/** What a wallet may read of its own calls. `payer` is in lower case, and proven by the caller of this store. */
export interface AccountStore {
  /** Records the nonce of an answered sign-in challenge. Returns whether this is its first use in any process. */
  useSignIn(nonce: string, expiresAt: Date): Promise<boolean>
  /** Returns receipts by the time of completion, newest first. */
  readReceipts(
    payer: string,
    page: PageRequest & { readonly period: AccountPeriod },
  ): Promise<AccountPage<AccountReceipt>>
  /** Returns the charges by day, model and operation, or `too_long` for a period that takes more than some seconds. */
  readSpend(payer: string, period: AccountPeriod): Promise<readonly DailySpend[] | 'too_long'>
  /** Returns completed calls whose charge is owed, oldest first. */
  readDebts(payer: string, page: PageRequest): Promise<UnpaidCalls>
  /** Returns calls that have not ended, those under review included, oldest first. */
  readOpenCalls(payer: string, page: PageRequest): Promise<UnpaidCalls>
}
