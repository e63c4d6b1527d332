import pLimit from 'p-limit'
import { type Hex, type PublicClient, parseAbi, parseEventLogs, type TransactionReceipt } from 'viem'
import { USDC_ADDRESS } from '#shared/chain/network/contracts.ts'
import type { MinedBatch, ReportedPayment } from './ledgers.ts'

/** Written again here: what the service reads from a receipt is what is to be checked. */
const EVENTS = parseAbi([
  'event PaymentSettled(address indexed payer, uint256 nonce, uint256 gasUsed)',
  'event PaymentFailed(address indexed payer, uint256 nonce, uint256 gasUsed, bytes4 reason)',
  'event Transfer(address indexed from, address indexed to, uint256 value)',
])
const READS_AT_ONCE = 16

/** What the chain has of one transaction. */
export interface ReadTransaction {
  /** `null` when it did not call the settlement contract. */
  readonly batch: MinedBatch | null
  /** The payments that the contract reports after each transfer to one of the recipients, in their order. */
  readonly noncesOfTransfers: readonly string[]
}

/** Reads the receipts of these transactions. Those that are not mined are missing in the result. */
export async function readBatches(
  client: PublicClient,
  contract: string,
  recipients: readonly string[],
  hashes: ReadonlySet<string>,
): Promise<ReadonlyMap<string, ReadTransaction>> {
  const limit = pLimit(READS_AT_ONCE)
  const read = [...hashes].map((hash) =>
    limit(async (): Promise<[string, ReadTransaction][]> => {
      const receipt = await client.getTransactionReceipt({ hash: hash as Hex }).catch(() => null)
      return receipt ? [[hash, decode(receipt, contract.toLowerCase(), new Set(recipients.map(lower)))]] : []
    }),
  )
  return new Map((await Promise.all(read)).flat())
}

function decode(receipt: TransactionReceipt, contract: string, recipients: ReadonlySet<string>): ReadTransaction {
  if (receipt.to?.toLowerCase() !== contract) return { batch: null, noncesOfTransfers: [] }
  const payments: ReportedPayment[] = []
  const noncesOfTransfers: string[] = []
  let unreported = 0
  for (const { address, eventName, args } of parseEventLogs({ abi: EVENTS, logs: receipt.logs })) {
    if (eventName === 'Transfer') {
      if (lower(address) === USDC_ADDRESS && recipients.has(lower(args.to))) unreported += 1
    } else if (lower(address) === contract) {
      const nonce = args.nonce.toString()
      payments.push({ payer: lower(args.payer), nonce, isSettled: eventName === 'PaymentSettled' })
      for (; unreported > 0; unreported--) noncesOfTransfers.push(nonce)
    }
  }
  const { transactionHash, status, gasUsed } = receipt
  const batch = { transactionHash: lower(transactionHash), isReverted: status === 'reverted', gasUsed, payments }
  return { batch, noncesOfTransfers }
}

function lower(hex: string): string {
  return hex.toLowerCase()
}
