import { getAbiItem, type Hex, parseEventLogs, type TransactionReceipt } from 'viem'
import type { Authorization } from '#shared/payment/authorization.ts'
import { settlementContractAbi, usdcAbi } from '../network/contracts.ts'

/** What the settlement contract reports of one payment of a batch. Addresses are in lower case. */
export interface BatchPayment {
  readonly payer: Hex
  readonly nonce: bigint
  readonly isSettled: boolean
  /** The gas of its call of the proxy. */
  readonly gasUsed: bigint
  /** The transfers that its call made, of any token. */
  readonly transfers: readonly BatchTransfer[]
}

export interface BatchTransfer {
  readonly asset: Hex
  readonly from: Hex
  readonly to: Hex
  readonly value: bigint
}

type BatchReceipt = Pick<TransactionReceipt, 'to' | 'logs'>

const decoded = new WeakMap<BatchReceipt, readonly BatchPayment[]>()

/**
 * Returns what the called contract reports of each payment, in their order; decoded once for each receipt. The transfers
 * of a payment are those between the previous event of the contract and its own: two payments of one payer may have
 * equal amounts.
 */
export function paymentsOfReceipt(receipt: BatchReceipt): readonly BatchPayment[] {
  const payments = decoded.get(receipt) ?? decode(receipt)
  decoded.set(receipt, payments)
  return payments
}

export function isPaymentOf(
  { payer, nonce }: Pick<BatchPayment, 'payer' | 'nonce'>,
  authorization: Pick<Authorization, 'payer' | 'nonce'>,
): boolean {
  return nonce === authorization.nonce && payer === lowerCase(authorization.payer)
}

/** Returns the payment's transfer from payer to recipient, if the batch settled it; of any value. */
export function transferOf(
  payments: readonly BatchPayment[],
  authorization: Pick<Authorization, 'payer' | 'nonce' | 'asset' | 'payTo'>,
): BatchTransfer | undefined {
  return payments
    .filter((payment) => payment.isSettled && isPaymentOf(payment, authorization))
    .flatMap(({ transfers }) => transfers)
    .find((transfer) => isTransferOf(transfer, authorization))
}

/** Returns whether it is a transfer of the asset from payer to recipient. */
export function isTransferOf(
  { asset, from, to }: BatchTransfer,
  authorization: Pick<Authorization, 'asset' | 'payer' | 'payTo'>,
): boolean {
  const { payer, payTo } = authorization
  return asset === lowerCase(authorization.asset) && from === lowerCase(payer) && to === lowerCase(payTo)
}

/** Only those that are read: viem hashes the name of each event for every receipt. */
const eventsAbi = [
  getAbiItem({ abi: settlementContractAbi, name: 'PaymentSettled' }),
  getAbiItem({ abi: settlementContractAbi, name: 'PaymentFailed' }),
  getAbiItem({ abi: usdcAbi, name: 'Transfer' }),
]

function decode({ to, logs }: BatchReceipt): readonly BatchPayment[] {
  if (to === null) return []
  const contract = lowerCase(to)
  const payments: BatchPayment[] = []
  let transfers: BatchTransfer[] = []
  for (const { address, ...event } of parseEventLogs({ abi: eventsAbi, logs })) {
    if (event.eventName === 'Transfer') {
      const { from, to: recipient, value } = event.args
      transfers.push({ asset: lowerCase(address), from: lowerCase(from), to: lowerCase(recipient), value })
    } else if (lowerCase(address) === contract) {
      const { payer, nonce, gasUsed } = event.args
      const isSettled = event.eventName === 'PaymentSettled'
      payments.push({ payer: lowerCase(payer), nonce, isSettled, gasUsed, transfers })
      transfers = []
    }
  }
  return payments
}

function lowerCase(hex: Hex): Hex {
  return hex.toLowerCase() as Hex
}
