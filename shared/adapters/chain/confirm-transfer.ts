import {
  isAddressEqual,
  type PublicClient,
  parseEventLogs,
  type TransactionReceipt,
  TransactionReceiptNotFoundError,
} from 'viem'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { Confirmation } from '#shared/payment/facilitator.ts'
import { usdcAbi } from './contracts.ts'

export type ConfirmTransfer = (
  hash: `0x${string}`,
  authorization: Authorization,
  chargeAmount: AtomicAmount,
) => Promise<Confirmation>

/** Settlements of one block share its time; only the newest few blocks are asked for. */
const BLOCKS_REMEMBERED = 64

/**
 * Looks a transaction up and demands proof: success, and the one USDC transfer of the charge from payer to recipient, in a
 * block that `confirmations` blocks stand on, itself counted. A receipt that is not deep enough is as good as none: the block
 * may still be replaced. One RPC call while pending, two when found, one when the block is known.
 */
export function createConfirmTransfer(client: PublicClient, confirmations = 1): ConfirmTransfer {
  const timestamps = new Map<string, Date>()
  return async (hash, authorization, chargeAmount) => {
    try {
      const receipt = await client.getTransactionReceipt({ hash })
      const { blockNumber, blockHash } = receipt
      if (confirmations > 1 && (await client.getBlockNumber()) - blockNumber + 1n < BigInt(confirmations))
        return { outcome: 'pending' }
      if (receipt.status === 'reverted') return { outcome: 'reverted', blockNumber }
      if (!holdsTransfer(receipt, authorization, chargeAmount)) return { outcome: 'unproven', blockNumber }
      const known = timestamps.get(blockHash)
      if (known) return { outcome: 'confirmed', blockNumber, blockHash, blockTimestamp: known }
      const block = await client.getBlock({ blockNumber })
      // The block was replaced between the two answers; the next look tells where the transaction is now.
      if (block.hash !== blockHash) return { outcome: 'pending' }
      const blockTimestamp = new Date(Number(block.timestamp) * 1000)
      timestamps.set(blockHash, blockTimestamp)
      for (const oldest of timestamps.keys()) if (timestamps.size > BLOCKS_REMEMBERED) timestamps.delete(oldest)
      return { outcome: 'confirmed', blockNumber, blockHash, blockTimestamp }
    } catch (cause) {
      if (cause instanceof TransactionReceiptNotFoundError) return { outcome: 'pending' }
      return { outcome: 'unreachable', cause }
    }
  }
}

function holdsTransfer(
  { logs }: TransactionReceipt,
  { asset, payer, payTo }: Authorization,
  chargeAmount: AtomicAmount,
): boolean {
  return parseEventLogs({ abi: usdcAbi, eventName: 'Transfer', logs }).some(
    ({ address, args }) =>
      isAddressEqual(address, asset) &&
      isAddressEqual(args.from, payer) &&
      isAddressEqual(args.to, payTo) &&
      args.value === chargeAmount,
  )
}
