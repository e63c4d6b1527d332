import { type PublicClient, parseAbi, parseEventLogs, TransactionReceiptNotFoundError } from 'viem'
import type { MinedTransfer, RefundOnChain, RefundReader } from '#shared/payment/refund.ts'
import { CHAIN_ID, USDC_ADDRESS } from '../network/contracts.ts'

const transferAbi = parseAbi(['event Transfer(address indexed from, address indexed to, uint256 value)'])

/** Creates a reader of refunds: up to four RPC calls for each. `senders`: see the port. */
export function createRefundReader(client: PublicClient, senders: readonly string[]): RefundReader {
  return {
    network: `eip155:${CHAIN_ID}`,
    asset: USDC_ADDRESS,
    senders,
    read: async (transaction) => {
      try {
        return await readTransaction(client, transaction as `0x${string}`)
      } catch (cause) {
        return { outcome: 'unreachable', cause }
      }
    },
  }
}

async function readTransaction(client: PublicClient, hash: `0x${string}`): Promise<RefundOnChain> {
  const receipt = await readReceipt(client, hash)
  if (receipt === null) return { outcome: 'unknown' }
  // By its number: the final chain decides whether the block of the receipt is the one at its height.
  const [block, finalized] = await Promise.all([
    client.getBlock({ blockNumber: receipt.blockNumber }),
    client.getBlock({ blockTag: 'finalized' }),
  ])
  const transfers = parseEventLogs({ abi: transferAbi, eventName: 'Transfer', logs: receipt.logs, strict: true })
  return {
    outcome: 'mined',
    isReverted: receipt.status === 'reverted',
    blockNumber: receipt.blockNumber,
    minedAt: new Date(Number(block.timestamp) * 1000),
    isFinal: block.hash === receipt.blockHash && receipt.blockNumber <= finalized.number,
    transfers: transfers.map(({ address, args, logIndex }): MinedTransfer => ({
      transaction: hash,
      logIndex,
      blockNumber: receipt.blockNumber,
      asset: address.toLowerCase(),
      from: args.from.toLowerCase(),
      to: args.to.toLowerCase(),
      amount: args.value,
    })),
  }
}

async function readReceipt(client: PublicClient, hash: `0x${string}`) {
  try {
    return await client.getTransactionReceipt({ hash })
  } catch (error) {
    if (error instanceof TransactionReceiptNotFoundError) return null
    throw error
  }
}
