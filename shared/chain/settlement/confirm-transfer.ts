import { isAddressEqual, type Log, type PublicClient, parseEventLogs, type TransactionReceipt } from 'viem'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { Confirmation } from '#shared/payment/facilitator.ts'
import { UPTO_PROXY_ADDRESS, usdcAbi } from '../network/contracts.ts'
import { readPaymentTransfers } from '../reading/read-payment-transfers.ts'
import { type BatchReading, createBatchReading } from './batch-reading.ts'
import {
  DEFAULT_NATIVE_TOKEN_USD,
  type ExpectedEvent,
  outcomeOf,
  type TransactionOutcome,
} from './confirm-transaction.ts'
import type { ReadTransaction } from './mined-transactions.ts'

export type ConfirmTransfer = (
  hash: `0x${string}`,
  authorization: Authorization,
  chargeAmount: AtomicAmount,
) => Promise<Confirmation>

/**
 * Creates the check that a transaction paid a charge: it contains the USDC transfer of it from payer to recipient. A
 * transaction of the contract that the payer signed settles several payments: what counts there is that the contract
 * reports this one as settled and that its own part of the transaction contains the transfer.
 */
export function createConfirmTransfer(
  client: PublicClient,
  read: ReadTransaction,
  nativeTokenUsd = DEFAULT_NATIVE_TOKEN_USD,
): ConfirmTransfer {
  const batches = createBatchReading(client)
  return async (hash, authorization, chargeAmount) => {
    try {
      const reading = await read(hash)
      if (typeof reading !== 'string' && isAddressedTo(reading.receipt, authorization)) {
        const outcome = await outcomeOf(reading, batches.eventOf(authorization, chargeAmount), nativeTokenUsd)
        return confirmationInBatch(batches, reading.receipt, authorization, outcome)
      }
      return confirmationOf(await outcomeOf(reading, transferOf(client, authorization, chargeAmount), nativeTokenUsd))
    } catch (cause) {
      return { outcome: 'unreachable', cause }
    }
  }
}

/** Returns whether a transaction calls the payer's facilitator, which is then a contract. */
function isAddressedTo({ to }: TransactionReceipt, { facilitator }: Authorization): boolean {
  return to !== null && isAddressEqual(to, facilitator)
}

function confirmationInBatch(
  batches: BatchReading,
  receipt: TransactionReceipt,
  authorization: Authorization,
  outcome: TransactionOutcome,
): Confirmation {
  const confirmation = confirmationOf(outcome)
  switch (confirmation.outcome) {
    case 'confirmed':
      return { ...confirmation, gas: batches.shareOf(receipt, authorization, confirmation.gas) }
    case 'reverted':
      return { ...confirmation, outcome: 'batch_reverted' }
    case 'transfer_missing': {
      if (outcome.outcome !== 'event_missing' || !batches.hasFailed(receipt, authorization)) return confirmation
      const { blockNumber, blockHash, gas } = outcome
      return { outcome: 'reverted', blockNumber, blockHash, gas: batches.shareOf(receipt, authorization, gas) }
    }
    default:
      return confirmation
  }
}

function confirmationOf(outcome: TransactionOutcome): Confirmation {
  if (outcome.outcome === 'pending' || outcome.outcome === 'unreachable') return outcome
  if (outcome.outcome === 'event_missing') return { outcome: 'transfer_missing', blockNumber: outcome.blockNumber }
  const { costWei: _, ...confirmation } = outcome
  return confirmation
}

/**
 * The transfer of a transaction that settles one payment: a call of the proxy. Of another contract's transaction, it may
 * be that of another payment.
 */
function transferOf(client: PublicClient, authorization: Authorization, chargeAmount: AtomicAmount): ExpectedEvent {
  return {
    isIn: (receipt) => isCallOfProxy(receipt) && hasTransfer(receipt.logs, authorization, chargeAmount),
    isIndexed: async (receipt) => {
      if (!isCallOfProxy(receipt)) return false
      const { transactionHash, blockNumber } = receipt
      const transfers = await readPaymentTransfers(client, authorization, blockNumber, blockNumber)
      const matching = transfers.filter((log) => log.transactionHash === transactionHash)
      return hasTransfer(matching, authorization, chargeAmount)
    },
  }
}

function isCallOfProxy({ to }: TransactionReceipt): boolean {
  return to !== null && isAddressEqual(to, UPTO_PROXY_ADDRESS)
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
