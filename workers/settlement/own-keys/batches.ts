import { withDeadline } from '#shared/runtime/with-deadline.ts'
import type { BatchDependencies } from '../dependencies.ts'
import { choosePayments, MAXIMUM_BATCH_PAYMENTS, type Payment, type SettlementDispatch } from './choose-batch.ts'
import type { PaymentOutcome, SettlementBatches } from './settlement-batches.ts'
import { batchesOf, storePayments } from './store-batch.ts'
import { createGathering, type Gathering } from './time-batches.ts'

/** A node that takes longer to answer a broadcast does not hold up the next batch. */
const LONGEST_BROADCAST_MS = 1000
/**
 * How long those that are prepared again have before others are chosen. Without it, all that wait for a full queue would be
 * prepared again at once, and a node may limit its calls per second.
 */
const PREPARING_MS = 500
/** How long batches stay smaller after a refusal before twice as much is tried: one node may have been set wrongly. */
const SMALLER_MS = 3_600_000
/** Of batches whose gas is remembered; older ones were mined long ago. */
const REMEMBERED_BATCHES = 1000

type Outcome = Exclude<PaymentOutcome, 'queue_full'>

/**
 * Gathers the payments that are ready into batches, one stream for each key and contract. A batch is stored before it is
 * sent, and its jobs continue as soon as it is stored.
 */
export function gatherBatches(dependencies: BatchDependencies): SettlementBatches {
  const { settlementStore, settler, blockWatch, maximumBatchGas, logger } = dependencies
  const streams = new Map<string, Gathering<Payment, Outcome>>()
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

  const choose = (waiting: readonly Payment[]) => choosePayments(waiting, readGasLimit(), settler)

  const send = async (
    payments: readonly Payment[],
    minedCount: bigint,
    decide: (outcomes: readonly (Outcome | Error | null)[]) => void,
  ) => {
    const outcomes = await storePayments(dependencies, payments, minedCount)
    decide(outcomes.map((outcome) => (outcome === 'queue_full' ? null : outcome)))
    for (const [batchId, { transaction, terms }] of batchesOf(payments, outcomes)) {
      rememberGas(batchId, settler.batchGas(terms))
      // The jobs of the batch share this broadcast, and repeat it until a node takes the transaction.
      await withDeadline(
        LONGEST_BROADCAST_MS,
        settler.broadcast(transaction).catch(() => undefined),
        () => undefined,
      )
    }
    if (outcomes.includes('outdated')) await new Promise((resolve) => setTimeout(resolve, PREPARING_MS))
  }

  const rememberGas = (batchId: string, gas: bigint) => {
    gasOfBatches.set(batchId, gas)
    for (const oldest of gasOfBatches.keys()) if (gasOfBatches.size > REMEMBERED_BATCHES) gasOfBatches.delete(oldest)
  }

  const openStream = ({ sender }: SettlementDispatch): Gathering<Payment, Outcome> => {
    const slots = createNonceSlots(dependencies, sender)
    return createGathering({
      choose,
      send: (payments, decide) => send(payments, slots.minedCount(), decide),
      whenNonceFree: () => slots.wait(),
      nextBlock: () => blockWatch.nextBlock(),
    })
  }

  const streamOf = (dispatch: SettlementDispatch) => {
    const key = `${dispatch.sender} ${dispatch.contract}`
    const stream = streams.get(key) ?? openStream(dispatch)
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
    record: (part, dispatch) =>
      streamOf(dispatch).add({ kind: 'record', part, dispatch, most: MAXIMUM_BATCH_PAYMENTS }),
    renew: async (part, dispatch, mostPayments) => {
      const outcome = await streamOf(dispatch).add({ kind: 'renew', part, dispatch, most: mostPayments })
      if (outcome === 'settled_before' || outcome === 'outdated')
        throw new Error('a settlement was signed again as if it were new')
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
    readState: () => ({
      out: followers.size,
      withoutNonce: [...streams.values()].reduce((sum, stream) => sum + stream.waitingForNonce(), 0),
      refused: refusals.size,
      gasLimit: readGasLimit(),
    }),
  }
}

function smaller(one: bigint, other: bigint): bigint {
  return one < other ? one : other
}

/** While no node answers, the ledger is asked again after this: another process may have seen more of the chain. */
const LONGEST_WAIT_MS = 2500
const NEVER = new AbortController().signal

/** Creates the count of one key's account nonces that the chain has used: each of them lets another one be taken. */
function createNonceSlots({ accounts, blockWatch }: BatchDependencies, key: `0x${string}`) {
  let mined = 0n
  const hasGrown = async () => {
    const count = await accounts.countAccountNonces(key).catch(() => mined)
    const isMore = count > mined
    if (isMore) mined = count
    return isMore
  }
  return {
    /** Returns the chain's count when this process last read it; 0 before. */
    minedCount: () => mined,
    /**
     * Waits until the count has changed since it was last read, or for a block. Called when the key has no nonce left.
     */
    wait: async () => {
      // Before the count is read, so that no block is missed.
      const following = blockWatch.follow([])
      try {
        if (await hasGrown()) return
        await following.next({ longestMs: LONGEST_WAIT_MS, signal: NEVER, everyBlock: true })
        await hasGrown()
      } finally {
        following.stop()
      }
    },
  }
}
