import type { StoredSettlement, StoredTransaction } from '#shared/jobs/job.ts'
import type {
  BatchRecording,
  BatchRenewal,
  JobSettlementStore,
  NewBatch,
  RecordingOutcome,
} from '#shared/jobs/settlement-store.ts'
import type { BlockWatch } from '#shared/payment/block-watch.ts'
import type { SettlementTerms, Settler } from '#shared/payment/facilitator.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import { withDeadline } from '#shared/runtime/with-deadline.ts'
import { createGathering, type Gathered, type Gathering } from './gathering.ts'

export interface BatchDependencies {
  readonly settlementStore: Pick<JobSettlementStore, 'recordBatch' | 'renewBatch' | 'abandonBatch'>
  readonly settler: Pick<Settler, 'signBatch' | 'batchGas' | 'broadcast'>
  readonly blockWatch: Pick<BlockWatch, 'nextBlock'>
  /** The gas limit of a batch; lower while its key has little gas. A payment that needs more goes alone. */
  readonly maximumBatchGas: bigint
  readonly logger: Logger
}

/** Where a payment is settled: by which key, through which contract. */
export interface BatchPlace {
  readonly sender: `0x${string}`
  readonly contract: `0x${string}`
  /** See `PreparedSettlement`. */
  readonly affordableGas: bigint | null
  readonly minimumAccountNonce: bigint
}

/** The batches of this process. */
export interface SettlementBatches {
  /** Moves generated → settling in a batch with those that are ready at the same time. */
  record(recording: BatchRecording, place: BatchPlace): Promise<RecordingOutcome>
  /** Stays settling: signs again in another batch, of at most `mostPayments`. */
  renew(renewal: BatchRenewal, place: BatchPlace, mostPayments: number): Promise<StoredSettlement | 'stale'>
  /**
   * Gives up a batch that is too large for every node, so that its payments can be signed again. Those of this process are
   * at most half as large for the next hour. Safe to repeat.
   */
  refuse(batchId: string): Promise<void>
  /** Counts a batch as out until the returned function is called; each of its payments does so. */
  follow(batchId: string): () => void
  readState(): BatchesState
}

/** For the metrics. */
export interface BatchesState {
  /** Batches whose payments this process follows. */
  readonly out: number
  /** How often batches were too large for every node. */
  readonly refused: number
  readonly gasLimit: bigint
}

/** More would hold up those that settle through a reader of receipts, and lose more when a batch reverts. */
export const MAXIMUM_BATCH_PAYMENTS = 100
/** A node that takes longer to answer a broadcast does not hold up the next batch. */
const LONGEST_BROADCAST_MS = 1000
/** How long batches stay smaller after a refusal before twice as much is tried: one node may have been set wrongly. */
const SMALLER_MS = 3_600_000
/** Of batches whose gas is remembered; older ones were mined long ago. */
const REMEMBERED_BATCHES = 1000

type Payment =
  | { readonly kind: 'record'; readonly part: BatchRecording; readonly place: BatchPlace; readonly most: number }
  | { readonly kind: 'renew'; readonly part: BatchRenewal; readonly place: BatchPlace; readonly most: number }

/**
 * Gathers the payments that are ready into batches, one stream for each key and contract. A batch is stored before it is
 * sent, and its jobs continue as soon as it is stored.
 */
export function gatherBatches(dependencies: BatchDependencies): SettlementBatches {
  const { settlementStore, settler, blockWatch, maximumBatchGas, logger } = dependencies
  const streams = new Map<string, Gathering<Payment, RecordingOutcome>>()
  const gasOfBatches = new Map<string, bigint>()
  const refusals = new Map<string, Promise<void>>()
  const followers = new Map<string, number>()
  let gasLimit = maximumBatchGas
  let growsAt = Number.POSITIVE_INFINITY

  const readGasLimit = () => {
    if (performance.now() >= growsAt) limitGas(gasLimit * 2n)
    return gasLimit
  }

  const limitGas = (gas: bigint) => {
    gasLimit = smaller(gas, maximumBatchGas)
    growsAt = gasLimit < maximumBatchGas ? performance.now() + SMALLER_MS : Number.POSITIVE_INFINITY
  }

  const choose = (waiting: readonly Payment[]) => chooseTogether(waiting, readGasLimit(), settler)

  const send = async (
    payments: readonly Payment[],
    decide: (outcomes: readonly (RecordingOutcome | Error)[]) => void,
  ) => {
    const outcomes = await store(dependencies, payments)
    decide(outcomes)
    for (const [batchId, { transaction, terms }] of batchesOf(payments, outcomes)) {
      rememberGas(batchId, settler.batchGas(terms))
      // The jobs of the batch share this broadcast, and repeat it until a node takes the transaction.
      await withDeadline(
        LONGEST_BROADCAST_MS,
        settler.broadcast(transaction).catch(() => undefined),
        () => undefined,
      )
    }
  }

  const rememberGas = (batchId: string, gas: bigint) => {
    gasOfBatches.set(batchId, gas)
    for (const oldest of gasOfBatches.keys()) if (gasOfBatches.size > REMEMBERED_BATCHES) gasOfBatches.delete(oldest)
  }

  const streamOf = ({ sender, contract }: BatchPlace) => {
    const key = `${sender} ${contract}`
    const stream = streams.get(key) ?? createGathering({ choose, send, nextBlock: blockWatch.nextBlock })
    streams.set(key, stream)
    return stream
  }

  const giveUp = async (batchId: string) => {
    const gas = gasOfBatches.get(batchId) ?? maximumBatchGas
    limitGas(smaller(gas / 2n, gasLimit))
    logger.error('SETTLEMENT_BATCH_GAS: a batch is too large for every node; those of the next hour are smaller', {
      reason: `at most ${gasLimit} gas`,
    })
    await settlementStore.abandonBatch(batchId)
  }

  return {
    record: (part, place) => streamOf(place).add({ kind: 'record', part, place, most: MAXIMUM_BATCH_PAYMENTS }),
    renew: async (part, place, mostPayments) => {
      const outcome = await streamOf(place).add({ kind: 'renew', part, place, most: mostPayments })
      if (outcome === 'settled_before') throw new Error('a settlement was signed again as if it were new')
      return outcome
    },
    refuse: async (batchId) => {
      const refusal = refusals.get(batchId) ?? giveUp(batchId)
      refusals.set(batchId, refusal)
      try {
        await refusal
      } catch (error) {
        refusals.delete(batchId)
        throw error
      }
    },
    follow: (batchId) => {
      followers.set(batchId, (followers.get(batchId) ?? 0) + 1)
      return () => {
        const left = (followers.get(batchId) ?? 1) - 1
        if (left === 0) followers.delete(batchId)
        else followers.set(batchId, left)
      }
    },
    readState: () => ({ out: followers.size, refused: refusals.size, gasLimit: readGasLimit() }),
  }
}

/** Returns the oldest with those of its kind that fit beside it. New payments never share a batch with repeated ones. */
function chooseTogether(
  waiting: readonly Payment[],
  gasLimit: bigint,
  { batchGas }: BatchDependencies['settler'],
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
    .map(({ place }) => place.affordableGas ?? gasLimit)
    .reduce(smaller, gasLimit)
  while (count > 1 && batchGas(termsOf(alike.slice(0, count))) > limit) count -= 1
  return { items: alike.slice(0, count), isFull: count < alike.length || count >= most }
}

/** Stores payments of one kind, one key and one contract. */
async function store(
  { settlementStore, settler }: BatchDependencies,
  payments: readonly Payment[],
): Promise<readonly (RecordingOutcome | Error)[]> {
  const [first] = payments
  if (!first) return []
  const { sender, contract } = first.place
  const batch: NewBatch = {
    account: { network: first.part.job.authorization.network, facilitator: sender },
    contract,
    minimumAccountNonce: payments.map(({ place }) => place.minimumAccountNonce).reduce(larger),
    sign: (charges, accountNonce) => settler.signBatch(charges, sender, accountNonce),
  }
  const recordings = payments.flatMap(({ kind, part }) => (kind === 'record' ? part : []))
  if (recordings.length > 0) return await settlementStore.recordBatch(recordings, batch)
  return await settlementStore.renewBatch(
    payments.flatMap(({ kind, part }) => (kind === 'renew' ? part : [])),
    batch,
  )
}

interface RecordedBatch {
  readonly transaction: StoredTransaction
  readonly terms: SettlementTerms[]
}

/** Returns the batches that were recorded, by their ids: several, if the payments could not be written together. */
function batchesOf(
  payments: readonly Payment[],
  outcomes: readonly (RecordingOutcome | Error)[],
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

function termsOf(payments: readonly Payment[]): readonly SettlementTerms[] {
  return payments.map(({ part }) => part.charge.terms)
}

function larger(one: bigint, other: bigint): bigint {
  return one > other ? one : other
}

function smaller(one: bigint, other: bigint): bigint {
  return one < other ? one : other
}
