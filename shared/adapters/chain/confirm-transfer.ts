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

/** Looks a transaction up and demands proof: success, and the one USDC transfer of the charge from payer to recipient. */
export async function confirmTransfer(
  client: PublicClient,
  hash: `0x${string}`,
  authorization: Authorization,
  chargeAmount: AtomicAmount,
): Promise<Confirmation> {
  try {
    const receipt = await client.getTransactionReceipt({ hash })
    const { blockNumber } = receipt
    if (receipt.status === 'reverted') return { outcome: 'reverted', blockNumber }
    if (!holdsTransfer(receipt, authorization, chargeAmount)) return { outcome: 'unproven', blockNumber }
    const { timestamp } = await client.getBlock({ blockNumber })
    return { outcome: 'confirmed', blockNumber, blockTimestamp: new Date(Number(timestamp) * 1000) }
  } catch (cause) {
    if (cause instanceof TransactionReceiptNotFoundError) return { outcome: 'pending' }
    return { outcome: 'unreachable', cause }
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
