import {
  isAddressEqual,
  type Log,
  type PublicClient,
  parseEventLogs,
  type TransactionReceipt,
  TransactionReceiptNotFoundError,
} from 'viem'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { Confirmation } from '#shared/payment/facilitator.ts'
import { usdcAbi } from './contracts.ts'
import { readPaymentTransfers } from './read-payment-transfers.ts'

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
 * may still be replaced. One RPC call; a second one for the time of a block that the node does not put into its logs; one more
 * when what is found proves nothing.
 */
export function createConfirmTransfer(client: PublicClient, confirmations = 1): ConfirmTransfer {
  const timestamps = new Map<string, Date>()
  return async (hash, authorization, chargeAmount) => {
    try {
      const receipt = await client.getTransactionReceipt({ hash })
      const { blockNumber, blockHash } = receipt
      if (confirmations > 1 && (await client.getBlockNumber()) - blockNumber + 1n < BigInt(confirmations))
        return { outcome: 'pending' }
      if (receipt.status === 'reverted' || !holdsTransfer(receipt.logs, authorization, chargeAmount)) {
        if (await isInLogs(client, receipt, authorization, chargeAmount))
          return { outcome: 'unreachable', cause: new Error('the node’s receipt and logs contradict each other') }
        return { outcome: receipt.status === 'reverted' ? 'reverted' : 'transfer_missing', blockNumber }
      }
      const told = timestamps.get(blockHash) ?? timeInLogs(receipt)
      if (told) return { outcome: 'confirmed', blockNumber, blockHash, blockTimestamp: told }
      const block = await client.getBlock({ blockNumber })
      // The block was replaced between the two answers; the next look tells where the transaction is now.
      if (block.hash !== blockHash) return { outcome: 'pending' }
      const blockTimestamp = dateOf(block.timestamp)
      timestamps.set(blockHash, blockTimestamp)
      for (const oldest of timestamps.keys()) if (timestamps.size > BLOCKS_REMEMBERED) timestamps.delete(oldest)
      return { outcome: 'confirmed', blockNumber, blockHash, blockTimestamp }
    } catch (cause) {
      if (cause instanceof TransactionReceiptNotFoundError) return { outcome: 'pending' }
      return { outcome: 'unreachable', cause }
    }
  }
}

/** Newer nodes tell the block's time in each log (`blockTimestamp` in Ethereum's execution APIs); `null` from others. */
function timeInLogs({ logs }: TransactionReceipt): Date | null {
  const seconds: bigint | null | undefined = logs[0]?.blockTimestamp
  return typeof seconds === 'bigint' ? dateOf(seconds) : null
}

function dateOf(unixSeconds: bigint): Date {
  return new Date(Number(unixSeconds) * 1000)
}

/**
 * What the log index says of the same transaction. Both answers without a transfer end a settlement for good, and after a
 * revert the payer is asked to pay again: one wrongly told receipt must not do that.
 */
async function isInLogs(
  client: PublicClient,
  { transactionHash, blockNumber }: TransactionReceipt,
  authorization: Authorization,
  chargeAmount: AtomicAmount,
): Promise<boolean> {
  const transfers = await readPaymentTransfers(client, authorization, blockNumber, blockNumber)
  const ours = transfers.filter((log) => log.transactionHash === transactionHash)
  return holdsTransfer(ours, authorization, chargeAmount)
}

function holdsTransfer(
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
