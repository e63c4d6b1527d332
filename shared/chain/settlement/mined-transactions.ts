import { LRUCache } from 'lru-cache'
import { BlockNotFoundError, type Hex, type PublicClient, type TransactionReceipt } from 'viem'
import { base } from '../network/base-chain.ts'
import { type Block, createLatestBlock, type LatestBlock } from '../reading/latest-block.ts'

/** A transaction in a block with enough confirmations. */
export interface DeepTransaction {
  readonly receipt: TransactionReceipt
  readonly blockTimestamp: Date
}

/**
 * `pending`: in no block that the node knows, or in one that was replaced after the receipt was read. `shallow`: in one
 * that is not deep enough yet.
 */
export type TransactionReading = DeepTransaction | 'pending' | 'shallow'

/** Reads where a transaction is. Rejects when the node does not answer. */
export type ReadTransaction = (hash: Hex) => Promise<TransactionReading>

/** How many blocks' times are cached. Transactions in one block share its time. */
const CACHED_BLOCKS = 64
/**
 * Creates the reading of transactions. Two RPC calls, receipt and latest block, of which transactions in the same second
 * share the second one; one more for the time of an older block, unless the node puts it into its logs. With several
 * confirmations, the block is read again at its number: the later blocks may not descend from it.
 */
export function createReadTransaction(
  client: PublicClient,
  confirmations = 1,
  latest: LatestBlock = createLatestBlock(client),
): ReadTransaction {
  const times = new LRUCache<Hex, Date>({ max: CACHED_BLOCKS })
  const remember = ({ hash, timestamp }: Pick<Block, 'hash' | 'timestamp'>) => times.set(hash, dateOf(timestamp))
  const isDeep = createDepthCheck(latest, confirmations, remember)
  /** Returns `null` when the block was replaced. */
  const readTime = async (receipt: TransactionReceipt) => {
    const { blockHash, blockNumber } = receipt
    const known = times.get(blockHash) ?? timeInLogs(receipt)
    if (known && confirmations === 1) return known
    const block = await client.getBlock({ blockNumber }).catch(nullIfMissing)
    if (block?.hash !== blockHash) return null
    remember(block)
    return dateOf(block.timestamp)
  }
  return async (hash) => {
    const receipt = await readReceipt(client, hash)
    if (!receipt) return 'pending'
    if (!(await isDeep(receipt).catch(nullIfMissing))) return 'shallow'
    const blockTimestamp = await readTime(receipt)
    return blockTimestamp ? { receipt, blockTimestamp } : 'pending'
  }
}

/** viem's own read would join one that has begun before. */
async function readReceipt(client: PublicClient, hash: Hex): Promise<TransactionReceipt | null> {
  const receipt = await client.request({ method: 'eth_getTransactionReceipt', params: [hash] })
  const { format } = base.formatters.transactionReceipt
  return receipt && format(receipt as Parameters<typeof format>[0], 'getTransactionReceipt')
}

/**
 * Creates the check that a receipt's block has enough confirmations. A recently seen latest block can prove that, but
 * never the contrary: then the node is asked again.
 */
function createDepthCheck(
  latest: LatestBlock,
  confirmations: number,
  onBlock: (block: Block) => void,
): (receipt: TransactionReceipt) => Promise<boolean> {
  return async ({ blockNumber, blockHash }) => {
    const isDeepBelow = (block: Block) => {
      onBlock(block)
      const { number, hash } = block
      return number - blockNumber + 1n >= BigInt(confirmations) && (number !== blockNumber || hash === blockHash)
    }
    const recent = latest.recent()
    return (recent !== null && isDeepBelow(recent)) || isDeepBelow(await latest.read())
  }
}

function nullIfMissing(error: unknown): null {
  if (error instanceof BlockNotFoundError) return null
  throw error
}

/**
 * Returns the block's time that newer nodes put into each log (`blockTimestamp` in Ethereum's execution APIs), else
 * `null`.
 */
function timeInLogs({ logs }: TransactionReceipt): Date | null {
  const seconds: bigint | null | undefined = logs[0]?.blockTimestamp
  return typeof seconds === 'bigint' ? dateOf(seconds) : null
}

function dateOf(unixSeconds: bigint): Date {
  return new Date(Number(unixSeconds) * 1000)
}
