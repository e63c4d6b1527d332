import type { StoredTransaction } from '#shared/jobs/job.ts'
import type { RecordingOutcome } from '#shared/ledger/settlement/move-to-settling.ts'
import type { BatchRecording } from '#shared/ledger/settlement/record-batch.ts'
import type { NewBatch } from '#shared/ledger/settlement/settlement-batches.ts'
import type { SettlementTerms } from '#shared/payment/facilitator.ts'
import type { BatchDependencies } from '../dependencies.ts'
import type { Payment } from './choose-batch.ts'
import type { PaymentOutcome } from './settlement-batches.ts'

/** Many blocks; a payment that meets no full queue waits for one at most. */
const FRESH_MS = 10_000

/** Signs and stores payments of one kind, one key and one contract, for account nonces that the chain has not used. */
export async function storePayments(
  dependencies: BatchDependencies,
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
  dependencies: BatchDependencies,
  payments: readonly Payment[],
  minedCount: bigint,
): Promise<readonly (RecordingOutcome | Error)[]> {
  const { settlementStore, settler } = dependencies
  const [first] = payments
  if (!first) return []
  const minimumAccountNonce = payments.map(({ dispatch }) => dispatch.minimumAccountNonce).reduce(larger, minedCount)
  const recordings = payments.flatMap(({ kind, part }) => (kind === 'record' ? part : []))
  const { sender, contract } = first.dispatch
  if (contract === null) return await recordAlone(dependencies, recordings, minimumAccountNonce)
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
  { settlementStore, settler }: BatchDependencies,
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
