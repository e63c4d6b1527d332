import type { PublicClient, TransactionReceipt } from 'viem'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { GasSpent } from '#shared/payment/facilitator.ts'
import { readSettledNonces } from '../reading/batched-nonces.ts'
import { isSameNonce } from '../reading/nonce-use.ts'
import { readPaymentTransfers } from '../reading/read-payment-transfers.ts'
import { isPaymentOf, isTransferOf, paymentsOfReceipt, transferOf } from '../settlement-contract/batch-receipt.ts'
import { shareOfGas } from '../settlement-contract/share-of-gas.ts'
import type { ExpectedEvent } from './confirm-transaction.ts'

/** What the receipt of a batch says about one of its payments. */
export interface BatchReading {
  /** The event and the transfer that prove the payment. */
  eventOf(authorization: Authorization, chargeAmount: AtomicAmount): ExpectedEvent
  /** Returns whether the contract reports that the payment failed, and not also that it was settled. */
  hasFailed(receipt: TransactionReceipt, authorization: Authorization): boolean
  /** Returns the payment's part of the gas, by the gas that each payment's call used. */
  shareOf(receipt: TransactionReceipt, authorization: Authorization, gas: GasSpent): GasSpent
}

/** Creates the reading of batches. What is read in addition to a receipt is read once for all of its payments. */
export function createBatchReading(client: PublicClient): BatchReading {
  const readIndex = oncePerReceipt(async ({ to, blockNumber, transactionHash }) => {
    if (to === null) return []
    const nonces = await readSettledNonces(client, to, { fromBlock: blockNumber, toBlock: blockNumber })
    return nonces.filter((nonce) => nonce.transactionHash === transactionHash)
  })
  return {
    eventOf: (authorization, chargeAmount) => ({
      isIn: (receipt) => transferOf(paymentsOfReceipt(receipt), authorization)?.value === chargeAmount,
      isIndexed: async (receipt) => {
        if (isReportedAsSettled(receipt, authorization))
          return await hasMoreTransfers(client, receipt, authorization, chargeAmount)
        return (await readIndex(receipt)).some((nonce) => isSameNonce(nonce, authorization))
      },
    }),
    hasFailed: (receipt, authorization) =>
      !isReportedAsSettled(receipt, authorization) &&
      paymentsOfReceipt(receipt).some((payment) => isPaymentOf(payment, authorization)),
    shareOf: (receipt, authorization, gas) => {
      const payments = paymentsOfReceipt(receipt)
      const weights = payments.map(({ gasUsed }) => gasUsed)
      const included = payments.map((payment) => isPaymentOf(payment, authorization))
      return shareOfGas(gas, weights, included)
    },
  }
}

function isReportedAsSettled(receipt: TransactionReceipt, authorization: Authorization): boolean {
  return (
    receipt.status === 'success' &&
    paymentsOfReceipt(receipt).some((payment) => payment.isSettled && isPaymentOf(payment, authorization))
  )
}

/** Returns whether the log index has more transfers of the charge in the transaction than its receipt. */
async function hasMoreTransfers(
  client: PublicClient,
  receipt: TransactionReceipt,
  authorization: Authorization,
  chargeAmount: AtomicAmount,
): Promise<boolean> {
  const { blockNumber, transactionHash } = receipt
  const indexed = await readPaymentTransfers(client, authorization, blockNumber, blockNumber)
  const inIndex = indexed.filter((log) => log.transactionHash === transactionHash && log.args.value === chargeAmount)
  const inReceipt = paymentsOfReceipt(receipt)
    .flatMap(({ transfers }) => transfers)
    .filter((transfer) => isTransferOf(transfer, authorization) && transfer.value === chargeAmount)
  return inIndex.length > inReceipt.length
}

/** Shares what is read for a receipt; a failure is not kept. */
function oncePerReceipt<T>(
  read: (receipt: TransactionReceipt) => Promise<T>,
): (receipt: TransactionReceipt) => Promise<T> {
  const readings = new WeakMap<TransactionReceipt, Promise<T>>()
  return async (receipt) => {
    const reading = readings.get(receipt) ?? read(receipt)
    readings.set(receipt, reading)
    try {
      return await reading
    } catch (error) {
      readings.delete(receipt)
      throw error
    }
  }
}
