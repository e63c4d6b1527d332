import type { JobState } from '#shared/jobs/job.ts'
import type { UnchargedKind } from '#shared/payment/uncharged-budget.ts'
import type { CallSummary, PaymentRecord, ResolutionRecord, UnknownSettlementRecord } from './payment-record.ts'

/** A place in a list that is ordered by time and, within a microsecond, by id. */
export interface ListPosition {
  readonly microseconds: bigint
  readonly id: string
}

export interface ListPage {
  readonly limit: number
  /** The last entry of the page before; `null` for the first page. */
  readonly after: ListPosition | null
  /** In place of `after`: the first entry of the page behind. */
  readonly before?: ListPosition | undefined
}

export interface List<Entry> {
  readonly entries: readonly Entry[]
  /** The first entry, before which there are others; `null` on the first page. */
  readonly previous: ListPosition | null
  /** The last entry, after which there are others; `null` on the last page. */
  readonly next: ListPosition | null
}

/** More than one only under a request id that several calls were sent with, or under a beginning. */
export const MOST_FINDINGS = 20

/** How much of an idempotency key the console shows and finds: the whole key is a capability. */
export const SHOWN_KEY_CHARACTERS = 6

/** What an id that somebody looked for belongs to. */
export interface Finding {
  readonly kind: 'job' | 'payer' | 'unknown_settlement' | 'sponsored_permit'
  /** Which of its ids it was, such as `request` or `refund`. */
  readonly matched:
    | 'job'
    | 'request'
    | 'key'
    | 'released_key'
    | 'receipt'
    | 'settlement'
    | 'transaction'
    | 'refund'
    | 'address'
  /** Of a job its id; the payer's address otherwise. */
  readonly id: string
}

/** Half-open, `from` ≤ t < `until`. */
export interface Period {
  readonly from: Date
  readonly until: Date
}

export interface CallFilter {
  readonly state?: JobState | 'open' | undefined
  readonly from?: Date | undefined
  readonly until?: Date | undefined
}

/** Which calls are exported. */
export interface ExportFilter extends Period {
  readonly state?: CallFilter['state']
  /** In lower case. */
  readonly payer?: string | undefined
}

/** A row of the list of all calls for bookkeeping. */
export interface ExportedCall extends CallSummary {
  readonly catalogVersion: string
  readonly receiptId: string | null
  readonly network: string
  readonly transaction: string | null
  readonly blockNumber: bigint | null
  readonly gasCost: bigint | null
  readonly settlementState: string | null
}

export interface CountAndAmount {
  readonly count: number
  readonly amount: bigint
}

/** What a payer has open, owes and spent. Amounts are atomic USDC. */
export interface PayerRecord {
  readonly payer: string
  readonly open: readonly CallSummary[]
  /** Of all open calls: the charge where it is fixed, the quoted maximum before. */
  readonly exposure: CountAndAmount
  readonly owed: readonly CallSummary[]
  readonly debts: CountAndAmount
  /** Completed calls of the last day and the last 30 days. */
  readonly spentToday: CountAndAmount
  readonly spentLately: CountAndAmount
  /** Whether older calls of the 30 days are left out of the sum, because there are too many. */
  readonly isSpendCut: boolean
  /** Work of the last day that ended without a charge, by kind. */
  readonly uncharged: readonly (CountAndAmount & { readonly kind: UnchargedKind })[]
  /** The newest of each. */
  readonly unknownSettlements: readonly UnknownSettlementRecord[]
  readonly permits: readonly SponsoredPermitRecord[]
  readonly resolutions: readonly ResolutionRecord[]
}

/** A permit that the service submitted at its own cost. */
export interface SponsoredPermitRecord {
  readonly id: string
  readonly state: 'requested' | 'signed' | 'confirmed' | 'failed'
  readonly requestedAt: Date
  readonly finishedAt: Date | null
  readonly transaction: string | null
  readonly gasWei: bigint | null
  /** Atomic USDC. */
  readonly gasCost: bigint | null
  readonly failureCode: string | null
}

/** One UTC day. Amounts are atomic USDC. */
export interface LedgerDay {
  /** `YYYY-MM-DD`. */
  readonly day: string
  readonly charged: CountAndAmount
  /** The charges of that day whose settlement is confirmed on chain; equal to `charged` unless one was lost. */
  readonly settled: bigint
  /** Confirmed settlements whose block may still be replaced. */
  readonly notFinal: number
  /** Of confirmed settlements, and of permits that the service submitted. */
  readonly settlementGas: bigint
  readonly permitGas: bigint
  /** Work that ended without a charge, at most; the gas of reverted settlements included. */
  readonly uncharged: CountAndAmount
  /** What operators ended that day, by outcome. */
  readonly resolved: readonly (CountAndAmount & { readonly outcome: string })[]
}

/** What the console reads of calls and their money. Every statement is indexed. */
export interface MoneyStore {
  /** Looks for every kind of id, then for what begins with it; of an idempotency key no more than the console shows. */
  findById(id: string): Promise<readonly Finding[]>
  readPayment(jobId: string): Promise<PaymentRecord | null>
  /** Returns calls by the time of their acceptance, newest first. */
  listCalls(filter: CallFilter, page: ListPage): Promise<List<CallSummary>>
  /** Returns a payer in lower case, or `null` for an address without calls, permits or unknown settlements. */
  readPayer(payer: string): Promise<PayerRecord | null>
  /** Returns the ended calls of a payer, newest first. */
  listPayerCalls(payer: string, page: ListPage): Promise<List<CallSummary>>
  /** Returns every day of the period, newest first. Both bounds are beginnings of UTC days. */
  readDays(period: Period): Promise<readonly LedgerDay[]>
  /** Returns the calls accepted in the period, oldest first, page by page. */
  exportCalls(filter: ExportFilter): AsyncIterable<readonly ExportedCall[]>
}
