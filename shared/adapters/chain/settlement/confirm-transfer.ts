import {
  BlockNotFoundError,
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
import { usdcAbi } from '../network/contracts.ts'
import { type Block, createLatestBlock, type LatestBlock } from '../reading/latest-block.ts'
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

/**
 * Creates the check that a transaction paid a charge: it succeeded and contains the USDC transfer of the charge from
 * payer to recipient, in a block with `confirmations` confirmations, its own included, counted from the latest block.
 * A receipt that is not deep enough counts as pending: its block may still be replaced. That holds for one confirmation
 * as well, because some nodes return receipts of a block that is still being built.
 *
 * Two RPC calls, receipt and latest block, of which settlements in the same second share the second one; one more for
 * the time of an older block, unless the node puts it into its logs; and one more when the receipt does not prove the
 * payment. With several confirmations, the block is read again at its number: the later blocks may not descend from it.
 */
export function createConfirmTransfer(
  client: PublicClient,
  confirmations = 1,
  nativeTokenUsd = DEFAULT_NATIVE_TOKEN_USD,
  latest = createLatestBlock(client),
): ConfirmTransfer {
  const timestamps = new Map<string, Date>()
  const remember = ({ hash, timestamp }: Pick<Block, 'hash' | 'timestamp'>) => {
    timestamps.set(hash, dateOf(timestamp))
    for (const oldest of timestamps.keys()) if (timestamps.size > CACHED_BLOCKS) timestamps.delete(oldest)
  }
  const isDeep = createDepthCheck(latest, confirmations, remember)
  return async (hash, authorization, chargeAmount) => {
    try {
      const receipt = await client.getTransactionReceipt({ hash })
      const { blockNumber, blockHash } = receipt
      if (!(await isDeep(receipt))) return { outcome: 'pending', isMined: true }
      const gas = gasSpent(receipt, nativeTokenUsd)
      if (receipt.status === 'reverted' || !hasTransfer(receipt.logs, authorization, chargeAmount)) {
        if (await isInLogs(client, receipt, authorization, chargeAmount))
          return { outcome: 'unreachable', cause: new Error('the node’s receipt and logs contradict each other') }
        return receipt.status === 'reverted'
          ? { outcome: 'reverted', blockNumber, blockHash, gas }
          : { outcome: 'transfer_missing', blockNumber }
      }
      const knownTime = timestamps.get(blockHash) ?? timeInLogs(receipt)
      if (knownTime && confirmations === 1)
        return { outcome: 'confirmed', blockNumber, blockHash, blockTimestamp: knownTime, gas }
      const block = await client.getBlock({ blockNumber })
      // The block was replaced after the receipt was read. The next poll shows where the transaction is now.
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
