import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { UnchargedKind } from '#shared/payment/uncharged-budget.ts'
import type { QueueName } from './job-queue.ts'
import type { ResolutionOutcome } from './resolution.ts'

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
  /** Number of jobs that need a person's decision and have none yet. */
  readonly inReview: number
  /** How many items persons ended since the beginning, and their amounts, by outcome. */
  readonly resolved: Readonly<Record<ResolutionOutcome, CountAndTotal>>
}

/** Totals over all settlements of the ledger. */
export interface SettlementTotals {
  /** Settlements that are not done: signed, confirmed but not final; and unproven, lost, surplus, unknown and not resolved. */
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

/** Hours that one roll-up adds; the whole history of an older ledger is added call by call. */
export const ROLLED_UP_HOURS = 24

/** Totals for the workers' metrics. */
export interface ReportsStore {
  readLedgerTotals(): Promise<LedgerTotals>
  readSettlementTotals(): Promise<SettlementTotals>
  readSponsoredTotals(): Promise<SponsoredTotals>
  /** Moves old charges into the stored totals, so that reading stays cheap. Returns the number of charges moved. */
  rollUpTotals(): Promise<number>
  /** Adds the totals of at most `ROLLED_UP_HOURS` hours that no longer change. Returns the number of hours added. */
  rollUpHours(): Promise<number>
}
