import type { BatchRecording } from '#shared/ledger/settlement/record-batch.ts'
import type { BatchRenewal } from '#shared/ledger/settlement/renew-batch.ts'
import type { SettlementTerms, Settler } from '#shared/payment/facilitator.ts'
import { MOST_UNMINED_NONCES } from '#shared/payment/settlement-key.ts'
import type { Gathered } from './time-batches.ts'

/** Where a payment is settled, and since when it could be. */
export interface SettlementDispatch {
  readonly sender: `0x${string}`
  /** The contract that settles it together with others; `null` when the key settles it in a transaction of its own. */
  readonly contract: `0x${string}` | null
  /** See `PreparedSettlement`. */
  readonly affordableGas: bigint | null
  readonly minimumAccountNonce: bigint
  /** When it was prepared first and last, by `performance.now()`. */
  readonly waitsSinceMs: number
  readonly preparedMs: number
}

export type Payment =
  | {
      readonly kind: 'record'
      readonly part: BatchRecording
      readonly dispatch: SettlementDispatch
      readonly most: number
    }
  | {
      readonly kind: 'renew'
      readonly part: BatchRenewal
      readonly dispatch: SettlementDispatch
      readonly most: number
    }

/** More would hold up those that settle through a reader of receipts, and lose more when a batch reverts. */
export const MAXIMUM_BATCH_PAYMENTS = 100

/**
 * Chooses who is next of one key and contract. Those that have waited longest go first, also if they were prepared
 * again.
 */
export function choosePayments(waiting: readonly Payment[], gasLimit: bigint, settler: Settler): Gathered<Payment> {
  const oldestFirst = waiting.toSorted((one, other) => one.dispatch.waitsSinceMs - other.dispatch.waitsSinceMs)
  return oldestFirst[0]?.dispatch.contract === null
    ? { items: oldestFirst.slice(0, MOST_UNMINED_NONCES), isFull: true }
    : chooseTogether(oldestFirst, gasLimit, settler)
}

/**
 * Returns the oldest with those of its kind that fit beside it. New payments never share a batch with repeated ones.
 */
function chooseTogether(waiting: readonly Payment[], gasLimit: bigint, settler: Settler): Gathered<Payment> {
  const alike = waiting.filter(({ kind }) => kind === waiting[0]?.kind)
  let count = 0
  let most = MAXIMUM_BATCH_PAYMENTS
  for (const payment of alike) {
    if (count > 0 && count >= Math.min(most, payment.most)) break
    most = Math.min(most, payment.most)
    count += 1
  }
  const limit = alike
    .slice(0, count)
    .map(({ dispatch }) => dispatch.affordableGas ?? gasLimit)
    .reduce(smaller, gasLimit)
  while (count > 1 && settler.batchGas(termsOf(alike.slice(0, count))) > limit) count -= 1
  return { items: alike.slice(0, count), isFull: count < alike.length || count >= most }
}

function termsOf(payments: readonly Payment[]): readonly SettlementTerms[] {
  return payments.map(({ part }) => part.charge.terms)
}

function smaller(one: bigint, other: bigint): bigint {
  return one < other ? one : other
}
