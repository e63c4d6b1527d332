import { setTimeout as sleep } from 'node:timers/promises'
import type { PublicClient, TransactionReceipt } from 'viem'
import { findPayments } from '../../packages/receipts/find-payments.ts'
import { formatUsdc } from '../budget/usdc.ts'
import { type ChainNode, readNode } from '../wallet/node-client.ts'
import { FareboxError } from '../wire/farebox-error.ts'
import type { Receipt } from '../wire/schemas.ts'
import { judge, type ReceiptCheck, skip } from './receipt-check.ts'

/** A node may learn of a block some seconds after the service. */
const LOOKUPS = 5
const PAUSE_MS = 1500

/** Looks for a payment that transferred exactly the charge from payer to recipient, through a node of the caller's choice. */
export async function checkTransfer(
  receipt: Receipt,
  node: ChainNode | null,
  pauseMs = PAUSE_MS,
): Promise<ReceiptCheck> {
  if (BigInt(receipt.charge_atomic) === 0n) return judge('transfer', [], 'nothing was charged, so there is no transfer')
  // A reorganization may have moved the transfer since the receipt was issued.
  const { state, transaction } = receipt.settlement ?? { state: 'confirmed', transaction: receipt.transaction }
  if (state === 'lost') return judge('transfer', [`a reorganization removed ${transaction}: nothing was paid`], '')
  if (node === null) return skip('transfer', 'no RPC URL is configured')
  if (!/^0x[0-9a-f]{64}$/i.test(transaction)) return judge('transfer', [`${transaction} is not a transaction`], '')
  try {
    const hash = transaction as `0x${string}`
    const found = await readNode(node, receipt.network, (client) => lookUp(client, hash, pauseMs))
    if (found === null) return judge('transfer', [`${transaction} is not on ${receipt.network}`], '')
    return judgeTransfer(receipt, found)
  } catch (error) {
    if (error instanceof FareboxError) return skip('transfer', error.problem)
    throw error
  }
}

async function lookUp(client: PublicClient, hash: `0x${string}`, pauseMs: number): Promise<TransactionReceipt | null> {
  const { TransactionReceiptNotFoundError } = await import('viem')
  for (let lookups = 1; ; lookups += 1) {
    try {
      return await client.getTransactionReceipt({ hash })
    } catch (error) {
      if (!(error instanceof TransactionReceiptNotFoundError)) throw error
      if (lookups === LOOKUPS) return null
      await sleep(pauseMs)
    }
  }
}

function judgeTransfer(receipt: Receipt, transaction: TransactionReceipt): ReceiptCheck {
  const { payer, pay_to: payTo } = receipt
  const { payments, batchSize } = findPayments(receipt, transaction.to, transaction.logs)
  const charge = BigInt(receipt.charge_atomic)
  // Of a batch, which may hold other payments of this payer, one has to be this one.
  const isPaid = payments.some((amounts) => amounts.length === 1 && amounts[0] === charge)
  const problems = [
    ...(transaction.status === 'success' ? [] : ['the transaction was reverted']),
    ...(isPaid ? [] : [describeOthers(receipt, payments.flat(), charge)]),
  ]
  const batch = batchSize === null ? '' : `, in a batch of ${batchSize}`
  return judge('transfer', problems, `${formatUsdc(charge)} USDC from ${payer} to ${payTo}${batch}`)
}

function describeOthers({ payer, pay_to }: Receipt, amounts: readonly bigint[], charge: bigint): string {
  const [amount] = amounts
  if (amount === undefined || amounts.length > 1)
    return `the transaction has ${amounts.length} transfers from ${payer} to ${pay_to}, none of them for this receipt`
  return `${formatUsdc(amount)} USDC were transferred instead of ${formatUsdc(charge)} USDC`
}
