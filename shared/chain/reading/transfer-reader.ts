import {
  createPublicClient,
  fallback,
  type Hex,
  http,
  parseEventLogs,
  type TransactionReceipt,
  TransactionReceiptNotFoundError,
} from 'viem'
import { base } from '../network/base-chain.ts'
import { CHAIN_ID, settlementContractAbi, USDC_ADDRESS, usdcAbi } from '../network/contracts.ts'
import { findFirstBlock } from './find-first-block.ts'

/** One USDC `Transfer` event, with addresses and hashes in lower case and the value in atomic units. */
export interface ChainTransfer {
  readonly transaction: Hex
  readonly blockNumber: bigint
  readonly from: Hex
  readonly to: Hex
  readonly valueAtomic: bigint
  /** The payment of a batch that it belongs to, as the settlement contract reported it; `null` outside of batches. */
  readonly payment: BatchPayment | null
}

/** What identifies a payment of a batch: its payer and Permit2 nonce. */
export interface BatchPayment {
  readonly payer: Hex
  readonly nonce: bigint
}

/** A mined transaction with all its USDC transfers. */
export interface MinedTransaction {
  readonly sender: Hex
  /** `null` for a contract creation. */
  readonly target: Hex | null
  readonly blockNumber: bigint
  readonly isReverted: boolean
  /** What its sender paid, with a rollup's fee for the transaction's data. */
  readonly gasWei: bigint
  readonly transfers: readonly ChainTransfer[]
}

export interface BlockRange {
  readonly first: bigint
  readonly last: bigint
}

/** Reads transfers on chain, independently of the ledger. Every method throws when the node does not answer. */
export interface TransferReader {
  /** Returns the newest block's number. Throws when the node serves another chain. */
  readHead(): Promise<bigint>
  /** Returns the first block at or after `time`, or one past the head when there is none yet. */
  findFirstBlock(time: Date, head: bigint): Promise<bigint>
  /** Returns every transfer to any of the recipients in the blocks. Any of `facilitators` may be a settlement contract. */
  readTransfers(
    parties: { readonly recipients: readonly string[]; readonly facilitators: readonly string[] },
    blocks: BlockRange,
  ): Promise<readonly ChainTransfer[]>
  /** Returns `null` when no block contains the transaction. */
  readTransaction(transaction: string): Promise<MinedTransaction | null>
  /** Returns the number of transactions that an account has sent. */
  readNonceCount(account: string): Promise<bigint>
}

/** A range of thousands of blocks takes a public node several seconds. */
const RPC_TIMEOUT_MS = 30_000
/** Concurrent lookups are sent as one JSON-RPC batch of at most this many. */
const BATCH_SIZE = 50

/**
 * Creates a reader over JSON-RPC with retries, and other nodes after them: a report over many blocks should survive a
 * lost response.
 */
export function createTransferReader(rpcUrls: readonly string[]): TransferReader {
  const client = createPublicClient({
    chain: base,
    transport: fallback(
      rpcUrls.map((url) => http(url, { timeout: RPC_TIMEOUT_MS, retryCount: 3, batch: { batchSize: BATCH_SIZE } })),
    ),
    cacheTime: 0,
  })
  return {
    readHead: async () => {
      const [chainId, head] = await Promise.all([client.getChainId(), client.getBlockNumber()])
      if (chainId !== CHAIN_ID) throw new Error(`the node serves chain ${chainId}, not ${CHAIN_ID}`)
      return head
    },
    findFirstBlock: (time, head) => findFirstBlock(client, BigInt(Math.ceil(time.getTime() / 1000)), head),
    readTransfers: async ({ recipients, facilitators }, { first, last }) => {
      // viem treats an empty list as any recipient.
      if (recipients.length === 0) return []
      const blocks = { fromBlock: first, toBlock: last, strict: true } as const
      const [transfers, reports] = await Promise.all([
        client.getContractEvents({
          ...blocks,
          address: USDC_ADDRESS,
          abi: usdcAbi,
          eventName: 'Transfer',
          args: { to: recipients as Hex[] },
        }),
        facilitators.length === 0
          ? []
          : client.getLogs({ ...blocks, address: facilitators as Hex[], events: PAYMENT_REPORTS }),
      ])
      return transfersOf(transfers, reports)
    },
    readTransaction: async (transaction) => {
      try {
        return minedTransaction(await client.getTransactionReceipt({ hash: transaction as Hex }))
      } catch (error) {
        if (error instanceof TransactionReceiptNotFoundError) return null
        throw error
      }
    },
    readNonceCount: async (account) =>
      BigInt(await client.getTransactionCount({ address: account as Hex, blockTag: 'latest' })),
  }
}

type RollupReceipt = TransactionReceipt & { readonly l1Fee?: bigint | null }

/** The event of the settlement contract after each payment of a batch that succeeded; one that failed moved nothing. */
const PAYMENT_REPORTS = settlementContractAbi.filter((item) => item.type === 'event' && item.name === 'PaymentSettled')

function minedTransaction(receipt: RollupReceipt): MinedTransaction {
  const { from, to, blockNumber, status, logs, gasUsed, effectiveGasPrice, l1Fee } = receipt
  const transfers = parseEventLogs({ abi: usdcAbi, eventName: 'Transfer', logs, strict: true })
  const reports = parseEventLogs({ abi: PAYMENT_REPORTS, logs, strict: true })
  return {
    sender: lowerCase(from),
    target: to && lowerCase(to),
    blockNumber,
    isReverted: status === 'reverted',
    gasWei: gasUsed * effectiveGasPrice + (l1Fee ?? 0n),
    transfers: transfersOf(
      transfers.filter(({ address }) => lowerCase(address) === USDC_ADDRESS),
      reports.filter(({ address }) => to && lowerCase(address) === lowerCase(to)),
    ),
  }
}

interface Position {
  readonly transactionHash: Hex
  readonly logIndex: number
}

interface TransferEvent extends Position {
  readonly blockNumber: bigint
  readonly args: { from: Hex; to: Hex; value: bigint }
}

interface PaymentReport extends Position {
  readonly args: { payer: Hex; nonce: bigint }
}

/** A transfer of a batch belongs to the payment that the contract reports next. */
function transfersOf(transfers: readonly TransferEvent[], reports: readonly PaymentReport[]): readonly ChainTransfer[] {
  const byTransaction = Map.groupBy(
    reports.toSorted((a, b) => a.logIndex - b.logIndex),
    ({ transactionHash }) => transactionHash,
  )
  return transfers.map(({ transactionHash, blockNumber, logIndex, args }) => {
    const report = byTransaction.get(transactionHash)?.find((next) => next.logIndex > logIndex)
    return {
      transaction: lowerCase(transactionHash),
      blockNumber,
      from: lowerCase(args.from),
      to: lowerCase(args.to),
      valueAtomic: args.value,
      payment: report ? { payer: lowerCase(report.args.payer), nonce: report.args.nonce } : null,
    }
  })
}

function lowerCase(hex: Hex): Hex {
  return hex.toLowerCase() as Hex
}
