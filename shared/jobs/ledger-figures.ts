import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { QueueName } from './job-queue.ts'

/** The unfinished jobs that one queue is to carry, by what the rows say; the queue itself may hold more or fewer messages. */
export interface QueueFigures {
  /** Due, and held by no worker. */
  readonly waiting: number
  readonly running: number
  /** To be tried again later. */
  readonly putOff: number
  /** Since when the oldest waiting one is due; 0 when none waits. */
  readonly oldestWaitingSeconds: number
}

export interface CountAndTotal {
  readonly count: number
  readonly total: AtomicAmount
}

/** What a look at the whole ledger gives: the same wherever it is taken. */
export interface LedgerTotals {
  readonly queues: ReadonlyMap<QueueName, QueueFigures>
  /** What unfinished jobs may still collect: the charge where it is fixed, the quoted maximum before. */
  readonly openExposure: AtomicAmount
  /** Since the beginning. */
  readonly charged: CountAndTotal
  /** Provider calls with an unknown outcome since the beginning, at the maximum that was authorized for them. */
  readonly ambiguous: CountAndTotal
  /** Results whose charge could not be collected and has not been paid since. */
  readonly withheld: CountAndTotal
  /** Jobs that a person must look at. */
  readonly inReview: number
}

export interface LedgerFiguresStore {
  readLedgerTotals(): Promise<LedgerTotals>
  /** Moves what is old enough into the stored totals, so that a look stays cheap. Gives the number of charges moved. */
  rollUpTotals(): Promise<number>
}
