import { LRUCache } from 'lru-cache'
import type { Hex, PublicClient } from 'viem'
import { type AtomicAmount, atomicAmount } from '#shared/money/atomic-amount.ts'
import type { PayerProvenance } from '#shared/payment/exposure.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import { MULTICALL3_ADDRESS, USDC_ADDRESS, usdcAbi } from '../network/contracts.ts'
import { isUnanswered } from '../network/rpc-failure.ts'
import { shareCalls } from '../network/share-calls.ts'

type ProvenanceReading =
  | { readonly outcome: 'read'; readonly provenance: PayerProvenance }
  /** The balance of that block does not suffice, so no more was read. */
  | { readonly outcome: 'insufficient'; readonly balance: AtomicAmount }
  | { readonly outcome: 'unreachable'; readonly cause: unknown }

/** Reads where the money of payers comes from, for payments that are not covered by what the payer has paid so far. */
export interface ProvenanceReader {
  /** How many blocks ago the money has to be there; 0 for the newest block. */
  readonly blocks: number
  /** Returns what was read of this payer some seconds ago, or `null`. */
  recent(payer: `0x${string}`): PayerProvenance | null
  read(payer: `0x${string}`, needed: AtomicAmount): Promise<ProvenanceReading>
}

/** Public nodes read the logs of this many blocks in one call: half an hour. */
const LOG_RANGE = 1000n
/** What was read is remembered for calls in parallel. */
const RECENT_MS = 5000
/** Of Base. */
const BLOCK_TIME_MS = 2000
/** Senders of a payer are asked for at most this often: a query of logs is the dearest read. */
const SENDERS_LIFE_MS = 60_000
const MAXIMUM_PAYERS = 10_000
const SHARING = { maximum: () => 100, longestWaitMs: 20, callsAtOnce: 4 }

/** A balance, and the block that it was read at. */
interface PastBalance {
  readonly balance: AtomicAmount
  readonly block: bigint
}

/** A balance, and the transfers up to its block. */
interface ReadSenders {
  readonly balance: AtomicAmount
  readonly received: Promise<PayerProvenance['received']>
}

/**
 * Creates the reader of balances some blocks ago, and of the transfers to payers whose balance sufficed. What a node
 * cannot tell is taken in the payer's favor, since asking again would not help an honest one: a balance that it does not
 * keep is replaced by the present one, transfers that it does not list by none. The limit of losses holds all the same.
 * A node that gives no answer is unreachable.
 */
export function createProvenanceReader(client: PublicClient, blocks: number, logger: Logger): ProvenanceReader {
  const shared = shareCalls<Hex, PastBalance>((owners) => readBalances(client, owners, blocks, logger), SHARING)
  const balances = new LRUCache<Hex, Promise<PastBalance>>({ max: MAXIMUM_PAYERS })
  const ttl = Math.max(1, Math.min(SENDERS_LIFE_MS, blocks * BLOCK_TIME_MS))
  const senders = new LRUCache<Hex, ReadSenders>({ max: MAXIMUM_PAYERS, ttl })
  const complete = new LRUCache<Hex, PayerProvenance>({ max: MAXIMUM_PAYERS, ttl: RECENT_MS })
  return {
    blocks,
    recent: (payer) => complete.get(payer) ?? null,
    read: async (payer, needed) => {
      try {
        // viem rejects mixed-case addresses with a wrong checksum, which the API accepts.
        const { balance, block } = await once(balances, payer, () =>
          shared(payer.toLowerCase() as Hex).finally(() => balances.delete(payer)),
        )
        if (balance < needed) return { outcome: 'insufficient', balance }
        let known = senders.get(payer)
        // What has arrived since has senders that were not read.
        if (!known || known.balance < balance) {
          known = { balance, received: readSenders(client, payer, block, logger) }
          senders.set(payer, known)
          known.received.catch(() => senders.delete(payer))
        }
        const provenance = { balance, received: await known.received }
        complete.set(payer, provenance)
        return { outcome: 'read', provenance }
      } catch (cause) {
        return { outcome: 'unreachable', cause }
      }
    },
  }
}

/** Returns the reading that is remembered or in progress, or else starts one. One that fails is forgotten. */
async function once<Value>(
  readings: LRUCache<Hex, Promise<Value>>,
  payer: Hex,
  read: () => Promise<Value>,
): Promise<Value> {
  const remembered = readings.get(payer)
  if (remembered) return await remembered
  const reading = read()
  readings.set(payer, reading)
  reading.catch(() => readings.delete(payer))
  return await reading
}

async function readBalances(
  client: PublicClient,
  owners: readonly Hex[],
  blocks: number,
  logger: Logger,
): Promise<readonly PastBalance[]> {
  const head = await client.getBlockNumber({ cacheTime: 0 })
  const block = head > BigInt(blocks) ? head - BigInt(blocks) : 0n
  const balancesAt = async (blockNumber: bigint | null): Promise<readonly bigint[]> =>
    await client.multicall({
      allowFailure: false,
      batchSize: 0,
      multicallAddress: MULTICALL3_ADDRESS,
      contracts: owners.map(
        (owner) => ({ address: USDC_ADDRESS, abi: usdcAbi, functionName: 'balanceOf', args: [owner] }) as const,
      ),
      ...(blockNumber === null ? {} : { blockNumber }),
    })
  const balances = await balancesAt(blocks === 0 ? null : block).catch(async (error: unknown) => {
    if (blocks === 0 || isUnanswered(error)) throw error
    logger.warn('the node does not keep the balances of some blocks ago; new payers pay from present ones', { error })
    return await balancesAt(null)
  })
  return balances.map((balance) => ({ balance: atomicAmount(balance), block }))
}

/** Reads the transfers to a payer in the blocks up to this one, summed up by sender. One RPC call. */
async function readSenders(
  client: PublicClient,
  payer: Hex,
  block: bigint,
  logger: Logger,
): Promise<PayerProvenance['received']> {
  const events = client.getContractEvents({
    address: USDC_ADDRESS,
    abi: usdcAbi,
    eventName: 'Transfer',
    args: { to: payer.toLowerCase() as Hex },
    strict: true,
    fromBlock: block >= LOG_RANGE ? block - LOG_RANGE + 1n : 0n,
    toBlock: block,
  })
  const transfers = await events.catch((error: unknown) => {
    logger.warn('the node does not list transfers to a new payer; debts of their senders are not seen', { error })
    return []
  })
  const bySender = Map.groupBy(transfers, ({ args: { from } }) => from.toLowerCase())
  return [...bySender].map(([from, sent]) => ({
    from,
    amount: atomicAmount(sent.reduce((sum, { args: { value } }) => sum + value, 0n)),
  }))
}
