import { LRUCache } from 'lru-cache'
import pLimit from 'p-limit'
import { type Hex, isAddressEqual, type PublicClient } from 'viem'
import type { FoundSettlement } from '#shared/jobs/unknown-settlement.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import { PERMIT2_ADDRESS, permit2Abi, UPTO_PROXY_ADDRESS } from '../network/contracts.ts'
import { hasNonce, wordOfNonce } from '../network/permit2-nonce.ts'
import { type BatchTransfer, isTransferOf, paymentsOfReceipt } from '../settlement-contract/batch-receipt.ts'
import { noncesOfBatch } from './batched-nonces.ts'
import { findFirstBlock } from './find-first-block.ts'
import { isSameNonce, nonceOfCall, type PayerNonce, wasInvalidated } from './nonce-use.ts'
import { readPaymentTransfers } from './read-payment-transfers.ts'

/** The state of an authorization on chain, regardless of the ledger. */
export type SettlementOnChain =
  | { outcome: 'unused' }
  /** No transaction settled the payment, and its payer invalidated the nonce. */
  | { outcome: 'cancelled' }
  | ({ outcome: 'settled' } & FoundSettlement)
  /**
   * The nonce is used, but neither a settlement nor an invalidation was found: the blocks or the payer's other payments
   * are too many to search, or the node does not have the newest blocks yet.
   */
  | { outcome: 'unexplained' }
  | { outcome: 'unreachable'; cause: unknown }

/**
 * Finds settlements on chain that the ledger has no row of, as after a restore from a backup: without this, a caller
 * whose payment was settled would be answered that it was not, and asked for another one.
 */
export interface SettlementSearch {
  /**
   * One RPC call for a nonce that is not used. About a dozen for one that is, and one for each payment of this payer in
   * the same blocks, at most 300. `since`: when the authorization was accepted; no earlier block can have settled it.
   * Never throws.
   */
  find(authorization: Authorization, since?: Date): Promise<SettlementOnChain>
}

/** A nonce that a successful transaction spent by settling a payment. */
interface Spending extends PayerNonce {
  /** What a settlement contract reports of it; `null` for a call of the proxy itself, which settles one payment. */
  readonly inBatch: { readonly contract: Hex; readonly transfers: readonly BatchTransfer[] } | null
}

/** Public nodes read the logs of this many blocks in one call. */
const LOG_RANGE = 1000n
/** Almost three hours of Base; official clients sign for less than half an hour. */
const MAXIMUM_BLOCKS = 5000n
/** How many other calls a payer may have made in these blocks: each costs an RPC call. */
const MAXIMUM_TRANSFERS = 300
const CONCURRENT_TRANSACTIONS = 10
/** How much later than the chain's the clock of a machine may be. */
const CLOCK_SKEW_SECONDS = 120n

/** After a restore many callers come back at the same time, and the node has other calls to answer. */
const CONCURRENT_SEARCHES = 8
/** Transactions that are remembered, since all payments of one payer are looked for in the same ones. */
const KEPT_TRANSACTIONS = 5000

type ReadSpending = (hash: `0x${string}`) => Promise<readonly Spending[]>

/**
 * Creates a search over JSON-RPC: by the payer's nonce, then by the calls that transferred from payer to recipient, of
 * the proxy or of the settlement contract that the payer signed.
 */
export function createSettlementSearch(client: PublicClient): SettlementSearch {
  const limit = pLimit(CONCURRENT_SEARCHES)
  const kept = new LRUCache<string, readonly Spending[]>({ max: KEPT_TRANSACTIONS })
  const read: ReadSpending = async (hash) => {
    const spending = kept.get(hash) ?? (await readSpending(client, hash))
    kept.set(hash, spending)
    return spending
  }
  return {
    find: async (authorization, since) => {
      try {
        if (!(await isUsed(client, authorization))) return { outcome: 'unused' }
        return await limit(() => findUse(client, read, authorization, since))
      } catch (cause) {
        return { outcome: 'unreachable', cause }
      }
    },
  }
}

async function isUsed(client: PublicClient, { payer, nonce }: Authorization): Promise<boolean> {
  const usedNonces = await client.readContract({
    address: PERMIT2_ADDRESS,
    abi: permit2Abi,
    functionName: 'nonceBitmap',
    args: [payer, wordOfNonce(nonce)],
  })
  return hasNonce(usedNonces, nonce)
}

/**
 * Finds what used the nonce in the blocks in which the contracts take the signature: the transaction that settled it,
 * or else its invalidation. Neither is concluded from the other's absence, since a node may not have the newest blocks.
 */
async function findUse(
  client: PublicClient,
  read: ReadSpending,
  authorization: Authorization,
  since: Date = new Date(0),
): Promise<SettlementOnChain> {
  const ranges = await rangesOf(client, authorization, since)
  let compared = 0
  for (const [from, to] of ranges.searched) {
    const transfers = transactionsOf(await readPaymentTransfers(client, authorization, from, to), authorization)
    compared += transfers.length
    if (compared > MAXIMUM_TRANSFERS) return { outcome: 'unexplained' }
    const settlement = await findSpender(read, transfers, authorization)
    if (settlement) return settlement
  }
  if (!ranges.areAll) return { outcome: 'unexplained' }
  for (const [from, to] of ranges.searched)
    if (await wasInvalidated(client, authorization, from, to)) return { outcome: 'cancelled' }
  return { outcome: 'unexplained' }
}

interface BlockRanges {
  /** From the newest to the oldest: callers who come back after a restore were settled recently. */
  readonly searched: readonly (readonly [from: bigint, to: bigint])[]
  /** Whether these are all blocks in which the signature may have been settled. */
  readonly areAll: boolean
}

async function rangesOf(
  client: PublicClient,
  { validAfter, deadline }: Authorization,
  since: Date,
): Promise<BlockRanges> {
  const head = await client.getBlockNumber()
  const sinceSeconds = BigInt(Math.floor(since.getTime() / 1000)) - CLOCK_SKEW_SECONDS
  const end = await findFirstBlock(client, deadline + 1n, head)
  const lowest = end > MAXIMUM_BLOCKS ? end - MAXIMUM_BLOCKS : 0n
  const oldest = await findFirstBlock(client, validAfter > sinceSeconds ? validAfter : sinceSeconds, head, lowest)
  const searched: (readonly [bigint, bigint])[] = []
  for (let last = end - 1n; last >= oldest; last -= LOG_RANGE) {
    const from = last - LOG_RANGE + 1n
    searched.push([from > oldest ? from : oldest, last])
  }
  return { searched, areAll: oldest > lowest || lowest === 0n }
}

interface Transfer {
  readonly transactionHash: `0x${string}`
  readonly blockNumber: bigint
  readonly args: { readonly value: bigint }
}

/**
 * Returns one transfer for each transaction that may be the settlement. Anyone can emit transfers of nothing in
 * another's name, and many in one transaction.
 */
function transactionsOf(transfers: readonly Transfer[], { authorizedMaximum }: Authorization): readonly Transfer[] {
  const possible = transfers.filter(({ args: { value } }) => value > 0n && value <= authorizedMaximum)
  return [...new Map(possible.map((transfer) => [transfer.transactionHash, transfer])).values()]
}

async function findSpender(
  read: ReadSpending,
  transfers: readonly Transfer[],
  authorization: Authorization,
): Promise<Extract<SettlementOnChain, { outcome: 'settled' }> | undefined> {
  for (let index = 0; index < transfers.length; index += CONCURRENT_TRANSACTIONS) {
    const some = transfers.slice(index, index + CONCURRENT_TRANSACTIONS)
    const spendings = await Promise.all(some.map(({ transactionHash }) => read(transactionHash)))
    for (const [position, transfer] of some.entries()) {
      const spending = spendings[position]?.find((spent) => isSameNonce(spent, authorization))
      const amount = spending && amountOf(spending, transfer, authorization)
      if (amount === undefined) continue
      const transaction = transfer.transactionHash.toLowerCase() as `0x${string}`
      return { outcome: 'settled', transaction, blockNumber: transfer.blockNumber, amount: atomicAmount(amount) }
    }
  }
  return undefined
}

/** Returns what the payment moved; `undefined` for the report of a contract that the payer did not sign. */
function amountOf({ inBatch }: Spending, { args }: Transfer, authorization: Authorization): bigint | undefined {
  if (!inBatch) return args.value
  if (!isAddressEqual(inBatch.contract, authorization.facilitator)) return undefined
  return inBatch.transfers.find((transfer) => isTransferOf(transfer, authorization))?.value
}

/**
 * Reads the nonces that a successful transaction spent. Only a call of the proxy, or what the called contract reports of
 * a batch, proves a settlement: other calldata may contain anything, including signatures of payments that it does not
 * settle. Whether the contract is to be trusted is decided by who signed it as facilitator. One RPC call, two for a batch.
 */
async function readSpending(client: PublicClient, hash: Hex): Promise<readonly Spending[]> {
  const { to, input } = await client.getTransaction({ hash })
  if (to === null) return []
  if (isAddressEqual(to, UPTO_PROXY_ADDRESS)) {
    const nonce = nonceOfCall(input)
    return nonce ? [{ ...nonce, inBatch: null }] : []
  }
  if (noncesOfBatch(input).length === 0) return []
  const receipt = await client.getTransactionReceipt({ hash })
  return paymentsOfReceipt(receipt).flatMap(({ payer, nonce, isSettled, transfers }) =>
    isSettled ? [{ payer, nonce, inBatch: { contract: to, transfers } }] : [],
  )
}
