import {
  BlockNotFoundError,
  type Log,
  type PublicClient,
  type TransactionReceipt,
  TransactionReceiptNotFoundError,
} from 'viem'
import { usdcOfWei } from '#shared/money/native-token.ts'
import type { GasSpent } from '#shared/payment/facilitator.ts'
import { type Block, createLatestBlock, type LatestBlock } from '../reading/latest-block.ts'

/** The event that proves what a transaction was sent for. */
export interface ExpectedEvent {
  isIn(logs: readonly Log[]): boolean
  /** Returns whether the node's log index has it in the block of the receipt. */
  isIndexed(receipt: TransactionReceipt): Promise<boolean>
}

interface InBlock {
  readonly blockNumber: bigint
  readonly blockHash: `0x${string}`
  readonly gas: GasSpent
  /** The same cost in wei of the native token. */
  readonly costWei: bigint
}

/** The state of a transaction on chain. Only `pending` and `unreachable` may change without a reorganization. */
export type TransactionOutcome =
  | ({ readonly outcome: 'confirmed'; readonly blockTimestamp: Date } & InBlock)
  | ({ readonly outcome: 'reverted' } & InBlock)
  /** It succeeded without the event. */
  | ({ readonly outcome: 'event_missing' } & InBlock)
  /** `isMined`: in a block that is not deep enough yet. */
  | { readonly outcome: 'pending'; readonly isMined?: true }
  | { readonly outcome: 'unreachable'; readonly cause: unknown }

export type ConfirmTransaction = (hash: `0x${string}`, event: ExpectedEvent) => Promise<TransactionOutcome>

/** For callers that need the outcome only. */
const DEFAULT_NATIVE_TOKEN_USD = 4000
/** How many blocks' times are cached. Transactions in one block share its time. */
const CACHED_BLOCKS = 64

/**
 * Creates the check that a transaction did what it was sent for: it succeeded and contains the expected event, in a
 * block with `confirmations` confirmations, its own included, counted from the latest block. A receipt that is not deep
 * enough counts as pending: its block may still be replaced. That holds for one confirmation as well, because some nodes
 * return receipts of a block that is still being built.
 *
 * Two RPC calls, receipt and latest block, of which transactions in the same second share the second one; one more for
 * the time of an older block, unless the node puts it into its logs; and one more when the receipt does not prove the
 * event. With several confirmations, the block is read again at its number: the later blocks may not descend from it.
 */
export function createConfirmTransaction(
  client: PublicClient,
  confirmations = 1,
  nativeTokenUsd = DEFAULT_NATIVE_TOKEN_USD,
  latest = createLatestBlock(client),
): ConfirmTransaction {
  const timestamps = new Map<string, Date>()
  const remember = ({ hash, timestamp }: Pick<Block, 'hash' | 'timestamp'>) => {
    timestamps.set(hash, dateOf(timestamp))
    for (const oldest of timestamps.keys()) if (timestamps.size > CACHED_BLOCKS) timestamps.delete(oldest)
  }
  const isDeep = createDepthCheck(latest, confirmations, remember)
  return async (hash, event) => {
    try {
      const receipt = await client.getTransactionReceipt({ hash })
      const { blockNumber, blockHash } = receipt
      if (!(await isDeep(receipt))) return { outcome: 'pending', isMined: true }
      const inBlock = { blockNumber, blockHash, ...costOf(receipt, nativeTokenUsd) }
      if (receipt.status === 'reverted' || !event.isIn(receipt.logs)) {
        // Both are permanent, and after a revert the payer is asked again: one wrong receipt must not cause that.
        if (await event.isIndexed(receipt))
          return { outcome: 'unreachable', cause: new Error('the node’s receipt and logs contradict each other') }
        return { outcome: receipt.status === 'reverted' ? 'reverted' : 'event_missing', ...inBlock }
      }
      const knownTime = timestamps.get(blockHash) ?? timeInLogs(receipt)
      if (knownTime && confirmations === 1) return { outcome: 'confirmed', ...inBlock, blockTimestamp: knownTime }
      const block = await client.getBlock({ blockNumber })
      // The block was replaced after the receipt was read. The next poll shows where the transaction is now.
      if (block.hash !== blockHash) return { outcome: 'pending' }
      remember(block)
      return { outcome: 'confirmed', ...inBlock, blockTimestamp: dateOf(block.timestamp) }
    } catch (cause) {
      if (cause instanceof TransactionReceiptNotFoundError || cause instanceof BlockNotFoundError)
        return { outcome: 'pending' }
      return { outcome: 'unreachable', cause }
    }
  }
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

function costOf(
  { gasUsed, effectiveGasPrice, l1Fee }: TransactionReceipt & { readonly l1Fee?: bigint | null },
  nativeTokenUsd: number,
): { readonly gas: GasSpent; readonly costWei: bigint } {
  const costWei = gasUsed * effectiveGasPrice + (l1Fee ?? 0n)
  return { gas: { gasUsed, effectiveGasPrice, cost: usdcOfWei(costWei, nativeTokenUsd) }, costWei }
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
