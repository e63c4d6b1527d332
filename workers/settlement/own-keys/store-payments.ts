import type { StoredTransaction } from '#shared/jobs/job.ts'
import type { RecordingOutcome } from '#shared/ledger/settlement/move-to-settling.ts'
import type { BatchRecording } from '#shared/ledger/settlement/record-batch.ts'
import type { BatchRenewal } from '#shared/ledger/settlement/renew-batch.ts'
import type { NewBatch } from '#shared/ledger/settlement/settlement-batches.ts'
import type { SettlementStore } from '#shared/ledger/settlement/settlement-store.ts'
import type { SettlementTerms, Settler } from '#shared/payment/facilitator.ts'
import { MOST_UNMINED_NONCES } from '#shared/payment/settlement-key.ts'
import type { Gathered } from './gathering.ts'

export interface StorePaymentsDependencies {
  readonly settlementStore: Pick<SettlementStore, 'recordSettlement' | 'recordBatch' | 'renewBatch'>
  readonly settler: Pick<Settler, 'sign' | 'signBatch'>
}

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

/** `outdated`: it was prepared too long ago. Its payer may have spent the money since, and fees may have risen. */
export type PaymentOutcome = RecordingOutcome | 'outdated'

/** Many blocks; a payment that meets no full queue waits for one at most. */
const FRESH_MS = 10_000

/** Signs and stores payments of one kind, one key and one contract, for account nonces that the chain has not used. */
export async function storePayments(
  dependencies: StorePaymentsDependencies,
  payments: readonly Payment[],
  minedCount: bigint,
): Promise<readonly (PaymentOutcome | Error)[]> {
  const oldest = performance.now() - FRESH_MS
  const fresh = payments.filter(({ kind, dispatch }) => kind === 'renew' || dispatch.preparedMs >= oldest)
  const outcomes = await storeFresh(dependencies, fresh, minedCount)
  const stored = new Map(fresh.map((payment, index) => [payment, outcomes[index]]))
  return payments.map((payment) => stored.get(payment) ?? 'outdated')
}

async function storeFresh(
  { settlementStore, settler }: StorePaymentsDependencies,
  payments: readonly Payment[],
  minedCount: bigint,
): Promise<readonly (RecordingOutcome | Error)[]> {
  const [first] = payments
  if (!first) return []
  const minimumAccountNonce = payments.map(({ dispatch }) => dispatch.minimumAccountNonce).reduce(larger, minedCount)
  const recordings = payments.flatMap(({ kind, part }) => (kind === 'record' ? part : []))
  const { sender, contract } = first.dispatch
  if (contract === null) return await recordAlone({ settlementStore, settler }, recordings, minimumAccountNonce)
  const batch: NewBatch = {
    account: { network: first.part.job.authorization.network, facilitator: sender },
    contract,
    minimumAccountNonce,
    sign: (charges, accountNonce) => settler.signBatch(charges, sender, accountNonce),
  }
  if (recordings.length > 0) return await settlementStore.recordBatch(recordings, batch)
  return await settlementStore.renewBatch(
    payments.flatMap(({ kind, part }) => (kind === 'renew' ? part : [])),
    batch,
  )
}

/** Records each in a transaction of its own; the store writes them together. */
async function recordAlone(
  { settlementStore, settler }: StorePaymentsDependencies,
  recordings: readonly BatchRecording[],
  minimumAccountNonce: bigint,
): Promise<readonly (RecordingOutcome | Error)[]> {
  return await Promise.all(
    recordings.map(async ({ job, charge: { authorization, chargeAmount, terms }, lookedUp = [] }) => {
      const sign = (accountNonce: bigint) => settler.sign(authorization, chargeAmount, terms, accountNonce)
      try {
        return await settlementStore.recordSettlement(job, { chargeAmount, minimumAccountNonce, sign, lookedUp })
      } catch (error) {
        return error instanceof Error ? error : new Error(String(error))
      }
    }),
  )
}

interface RecordedBatch {
  readonly transaction: StoredTransaction
  readonly terms: SettlementTerms[]
}

/** Returns the batches that were recorded, by their ids: several, if the payments could not be written together. */
export function batchesOf(
  payments: readonly Payment[],
  outcomes: readonly (PaymentOutcome | Error)[],
): ReadonlyMap<string, RecordedBatch> {
  const batches = new Map<string, RecordedBatch>()
  for (const [index, { part }] of payments.entries()) {
    const outcome = outcomes[index]
    if (outcome === undefined || typeof outcome === 'string' || outcome instanceof Error) continue
    const { batch, transactions } = outcome
    const [transaction] = transactions
    if (!batch || !transaction) continue
    const recorded = batches.get(batch.id) ?? { transaction, terms: [] }
    recorded.terms.push(part.charge.terms)
    batches.set(batch.id, recorded)
  }
  return batches
}

function larger(one: bigint, other: bigint): bigint {
  return one > other ? one : other
}

/** More would hold up those that settle through a reader of receipts, and lose more when a batch reverts. */
export const MAXIMUM_BATCH_PAYMENTS = 100

/**
 * Chooses who is next of one key and contract. Those that have waited longest go first, also if they were prepared
 * again.
 */
export function choosePayments(
  waiting: readonly Payment[],
  gasLimit: bigint,
  settler: Pick<Settler, 'batchGas'>,
): Gathered<Payment> {
  const oldestFirst = waiting.toSorted((one, other) => one.dispatch.waitsSinceMs - other.dispatch.waitsSinceMs)
  return oldestFirst[0]?.dispatch.contract === null
    ? { items: oldestFirst.slice(0, MOST_UNMINED_NONCES), isFull: true }
    : chooseTogether(oldestFirst, gasLimit, settler)
}

/**
 * Returns the oldest with those of its kind that fit beside it. New payments never share a batch with repeated ones.
 */
function chooseTogether(
  waiting: readonly Payment[],
  gasLimit: bigint,
  { batchGas }: Pick<Settler, 'batchGas'>,
): Gathered<Payment> {
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
  while (count > 1 && batchGas(termsOf(alike.slice(0, count))) > limit) count -= 1
  return { items: alike.slice(0, count), isFull: count < alike.length || count >= most }
}

function termsOf(payments: readonly Payment[]): readonly SettlementTerms[] {
  return payments.map(({ part }) => part.charge.terms)
}

function smaller(one: bigint, other: bigint): bigint {
  return one < other ? one : other
}
