import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { UnchargedKind } from '#shared/payment/uncharged-budget.ts'
import type { QueueName } from './job-queue.ts'

/** The jobs of one queue according to their rows; the queue itself may have more or fewer messages. */
export interface QueueTotals {
  /** Due, and leased by no worker. */
  readonly waiting: number
  readonly running: number
  /** Tried before without progress, or to be tried later. */
  readonly deferred: number
  /** How long the oldest waiting job has been due; 0 when none waits. */
  readonly oldestWaitingSeconds: number
  /** Since when the longest-deferred job has been deferred in its state; 0 when none is. */
  readonly oldestDeferredSeconds: number
}

export interface CountAndTotal {
  readonly count: number
  readonly total: AtomicAmount
}

/** Totals over the whole ledger, the same in every process. */
export interface LedgerTotals {
  readonly queues: ReadonlyMap<QueueName, QueueTotals>
  /** Sum that unfinished jobs may still charge: the charge where it is fixed, the quoted maximum before. */
  readonly openExposure: AtomicAmount
  /** Since the beginning. */
  readonly charged: CountAndTotal
  /** Provider calls with an unknown outcome since the beginning, at the maximum that was authorized for them. */
  readonly ambiguous: CountAndTotal
  /** Results whose charge could not be settled and has not been paid since. */
  readonly withheld: CountAndTotal
  /** Work that ended without a charge since the beginning, by kind. */
  readonly uncharged: Readonly<Record<UnchargedKind, CountAndTotal>>
  /** What new payers together have open, owe, and caused without a charge within the window. */
  readonly newPayerExposure: AtomicAmount
  /** Number of jobs that need a person's decision. */
  readonly inReview: number
}

/** Totals over all settlements of the ledger. */
export interface SettlementTotals {
  /** Settlements that are not done: signed, confirmed but not final, unproven, lost, surplus, unknown. */
  readonly counts: Readonly<Record<'signed' | 'confirmed' | 'unproven' | 'lost' | 'surplus' | 'unknown', number>>
  readonly oldestSignedAgeSeconds: number
}

/** The permits that the service submits at its own cost. */
export interface SponsoredTotals {
  readonly counts: Readonly<Record<'requested' | 'signed', number>>
  readonly oldestPendingAgeSeconds: number
  /** What the daily ceiling counts: the gas of the last day, and the most that permits in progress may cost. */
  readonly dayGasWei: bigint
}

/** Totals for the workers' metrics. */
export interface ReportsStore {
  readLedgerTotals(): Promise<LedgerTotals>
  readSettlementTotals(): Promise<SettlementTotals>
  readSponsoredTotals(): Promise<SponsoredTotals>
  /** Moves old charges into the stored totals, so that reading stays cheap. Returns the number of charges moved. */
  rollUpTotals(): Promise<number>
}
