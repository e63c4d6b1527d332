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
import { usdcAbi } from '../network/contracts.ts'
import { readPaymentTransfers } from '../reading/read-payment-transfers.ts'

export type ConfirmTransfer = (
  hash: `0x${string}`,
  authorization: Authorization,
  chargeAmount: AtomicAmount,
) => Promise<Confirmation>

/** How many blocks' times are cached. Settlements in one block share its time. */
const CACHED_BLOCKS = 64

/**
 * Creates the check that a transaction paid a charge: it succeeded and contains the USDC transfer of the charge from
 * payer to recipient, in a block with `confirmations` confirmations, its own included. A receipt that is not deep
 * enough counts as pending: its block may still be replaced. One RPC call, a second one for the block's time unless the
 * node puts it into its logs, and one more when the receipt does not prove the payment.
 */
export function createConfirmTransfer(client: PublicClient, confirmations = 1): ConfirmTransfer {
  const timestamps = new Map<string, Date>()
  return async (hash, authorization, chargeAmount) => {
    try {
      const receipt = await client.getTransactionReceipt({ hash })
      const { blockNumber, blockHash } = receipt
      if (confirmations > 1 && (await client.getBlockNumber()) - blockNumber + 1n < BigInt(confirmations))
        return { outcome: 'pending' }
      if (receipt.status === 'reverted' || !hasTransfer(receipt.logs, authorization, chargeAmount)) {
        if (await isInLogs(client, receipt, authorization, chargeAmount))
          return { outcome: 'unreachable', cause: new Error('the node’s receipt and logs contradict each other') }
        return { outcome: receipt.status === 'reverted' ? 'reverted' : 'transfer_missing', blockNumber }
      }
      const knownTime = timestamps.get(blockHash) ?? timeInLogs(receipt)
      if (knownTime) return { outcome: 'confirmed', blockNumber, blockHash, blockTimestamp: knownTime }
      const block = await client.getBlock({ blockNumber })
      // The block was replaced between the two calls. The next poll shows where the transaction is now.
      if (block.hash !== blockHash) return { outcome: 'pending' }
      const blockTimestamp = dateOf(block.timestamp)
      timestamps.set(blockHash, blockTimestamp)
      for (const oldest of timestamps.keys()) if (timestamps.size > CACHED_BLOCKS) timestamps.delete(oldest)
      return { outcome: 'confirmed', blockNumber, blockHash, blockTimestamp }
    } catch (cause) {
      if (cause instanceof TransactionReceiptNotFoundError) return { outcome: 'pending' }
      return { outcome: 'unreachable', cause }
    }
  }
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
