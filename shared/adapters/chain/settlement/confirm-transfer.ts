import {
  BlockNotFoundError,
  type GetBlockReturnType,
  isAddressEqual,
  type Log,
  type PublicClient,
  parseEventLogs,
  type TransactionReceipt,
  TransactionReceiptNotFoundError,
} from 'viem'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import { usdcOfWei } from '#shared/money/native-token.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { Confirmation, GasSpent } from '#shared/payment/facilitator.ts'
import type { base } from '../network/base-chain.ts'
import { usdcAbi } from '../network/contracts.ts'
import { readPaymentTransfers } from '../reading/read-payment-transfers.ts'

export type ConfirmTransfer = (
  hash: `0x${string}`,
  authorization: Authorization,
  chargeAmount: AtomicAmount,
) => Promise<Confirmation>

/** For callers that need the outcome only. */
const DEFAULT_NATIVE_TOKEN_USD = 4000
/** How many blocks' times are cached. Settlements in one block share its time. */
const CACHED_BLOCKS = 64
/** How long the newest block that was seen proves depth; shorter than a block, since a reorganization may remove it. */
const LATEST_BLOCK_MS = 1000

type Block = Pick<GetBlockReturnType<typeof base>, 'number' | 'hash' | 'timestamp'>

/**
 * Creates the check that a transaction paid a charge: it succeeded and contains the USDC transfer of the charge from
 * payer to recipient, in a block with `confirmations` confirmations, its own included, counted from the latest block.
 * A receipt that is not deep enough counts as pending: its block may still be replaced. That holds for one confirmation
 * as well, because some nodes return receipts of a block that is still being built.
 *
 * Two RPC calls, receipt and latest block, of which settlements in the same second share the second one; one more for
 * the time of an older block, unless the node puts it into its logs; and one more when the receipt does not prove the
 * payment.
 */
export function createConfirmTransfer(
  client: PublicClient,
  confirmations = 1,
  nativeTokenUsd = DEFAULT_NATIVE_TOKEN_USD,
): ConfirmTransfer {
  const timestamps = new Map<string, Date>()
  const remember = ({ hash, timestamp }: Block) => {
    timestamps.set(hash, dateOf(timestamp))
    for (const oldest of timestamps.keys()) if (timestamps.size > CACHED_BLOCKS) timestamps.delete(oldest)
  }
  const isDeep = createDepthCheck(client, confirmations, remember)
  return async (hash, authorization, chargeAmount) => {
    try {
      const receipt = await client.getTransactionReceipt({ hash })
      const { blockNumber, blockHash } = receipt
      if (!(await isDeep(receipt))) return { outcome: 'pending' }
      const gas = gasSpent(receipt, nativeTokenUsd)
      if (receipt.status === 'reverted' || !hasTransfer(receipt.logs, authorization, chargeAmount)) {
        if (await isInLogs(client, receipt, authorization, chargeAmount))
          return { outcome: 'unreachable', cause: new Error('the node’s receipt and logs contradict each other') }
        return receipt.status === 'reverted'
          ? { outcome: 'reverted', blockNumber, blockHash, gas }
          : { outcome: 'transfer_missing', blockNumber }
      }
      const knownTime = timestamps.get(blockHash) ?? timeInLogs(receipt)
      if (knownTime) return { outcome: 'confirmed', blockNumber, blockHash, blockTimestamp: knownTime, gas }
      const block = await client.getBlock({ blockNumber })
      // The block was replaced between the two calls. The next poll shows where the transaction is now.
      if (block.hash !== blockHash) return { outcome: 'pending' }
      remember(block)
      return { outcome: 'confirmed', blockNumber, blockHash, blockTimestamp: dateOf(block.timestamp), gas }
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
  client: PublicClient,
  confirmations: number,
  onBlock: (block: Block) => void,
): (receipt: TransactionReceipt) => Promise<boolean> {
  let seen: { readonly block: Block; readonly until: number } | null = null
  return async ({ blockNumber, blockHash }) => {
    const isDeepBelow = ({ number, hash }: Block) =>
      number - blockNumber + 1n >= BigInt(confirmations) && (number !== blockNumber || hash === blockHash)
    if (seen && performance.now() < seen.until && isDeepBelow(seen.block)) return true
    const block = await client.getBlock()
    seen = { block, until: performance.now() + LATEST_BLOCK_MS }
    onBlock(block)
    return isDeepBelow(block)
  }
}

function gasSpent(
  { gasUsed, effectiveGasPrice, l1Fee }: TransactionReceipt & { readonly l1Fee?: bigint | null },
  nativeTokenUsd: number,
): GasSpent {
  const wei = gasUsed * effectiveGasPrice + (l1Fee ?? 0n)
  return { gasUsed, effectiveGasPrice, cost: usdcOfWei(wei, nativeTokenUsd) }
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

/**
 * Returns whether the log index has the transfer. `reverted` and `transfer_missing` are permanent, and after a revert
 * the payer is asked to pay again: one wrong receipt from a node must not cause that.
 */
async function isInLogs(
  client: PublicClient,
  { transactionHash, blockNumber }: TransactionReceipt,
  authorization: Authorization,
  chargeAmount: AtomicAmount,
): Promise<boolean> {
  const transfers = await readPaymentTransfers(client, authorization, blockNumber, blockNumber)
  const matching = transfers.filter((log) => log.transactionHash === transactionHash)
  return hasTransfer(matching, authorization, chargeAmount)
}

function hasTransfer(
  logs: readonly Log[],
  { asset, payer, payTo }: Authorization,
  chargeAmount: AtomicAmount,
): boolean {
  return parseEventLogs({ abi: usdcAbi, eventName: 'Transfer', logs: [...logs] }).some(
    ({ address, args }) =>
      isAddressEqual(address, asset) &&
      isAddressEqual(args.from, payer) &&
      isAddressEqual(args.to, payTo) &&
      args.value === chargeAmount,
  )
}
