import type { TransactionReceipt } from 'viem'
import { usdcOfWei } from '#shared/money/native-token.ts'
import type { GasSpent } from '#shared/payment/facilitator.ts'
import type { TransactionReading } from './mined-transactions.ts'

/** The event that proves what a transaction was sent for. */
export interface ExpectedEvent {
  isIn(receipt: TransactionReceipt): boolean
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

const NOT_MINED: TransactionOutcome = { outcome: 'pending' }
/** For callers that need the outcome only. */
export const DEFAULT_NATIVE_TOKEN_USD = 4000

/**
 * Returns whether a transaction did what it was sent for: it succeeded and contains the expected event, in a block that is
 * deep enough. One that is not counts as pending: its block may still be replaced. That holds for one confirmation as
 * well, because some nodes return receipts of a block that is still being built. One RPC call, when the receipt does not
 * prove the event. Rejects when the node does not answer.
 */
export async function outcomeOf(
  reading: TransactionReading,
  event: ExpectedEvent,
  nativeTokenUsd: number,
): Promise<TransactionOutcome> {
  if (reading === 'pending') return NOT_MINED
  if (reading === 'shallow') return { outcome: 'pending', isMined: true }
  const { receipt, blockTimestamp } = reading
  const { blockNumber, blockHash, status } = receipt
  const inBlock = { blockNumber, blockHash, ...costOf(receipt, nativeTokenUsd) }
  if (status === 'reverted' || !event.isIn(receipt)) {
    // Both are permanent, and after a revert the payer is asked again: one wrong receipt must not cause that.
    if (await event.isIndexed(receipt))
      return { outcome: 'unreachable', cause: new Error('the node’s receipt and logs contradict each other') }
    return { outcome: status === 'reverted' ? 'reverted' : 'event_missing', ...inBlock }
  }
  return { outcome: 'confirmed', ...inBlock, blockTimestamp }
}

function costOf(
  { gasUsed, effectiveGasPrice, l1Fee }: TransactionReceipt & { readonly l1Fee?: bigint | null },
  nativeTokenUsd: number,
): { readonly gas: GasSpent; readonly costWei: bigint } {
  const costWei = gasUsed * effectiveGasPrice + (l1Fee ?? 0n)
  return { gas: { gasUsed, effectiveGasPrice, cost: usdcOfWei(costWei, nativeTokenUsd) }, costWei }
}
