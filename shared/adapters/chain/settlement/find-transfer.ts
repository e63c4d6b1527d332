import type { PublicClient } from 'viem'
import type { Settler } from '#shared/payment/facilitator.ts'
import { readSettledNonces } from '../reading/batched-nonces.ts'
import { isSameNonce } from '../reading/nonce-use.ts'
import { readPaymentTransfers } from '../reading/read-payment-transfers.ts'

/**
 * Creates the search of the log index for a payment in given transactions. Two concurrent RPC calls. A transfer in a batch
 * proves nothing by itself, since the payer may have other payments in it: there the event of the contract counts.
 */
export function createFindTransfer(client: PublicClient): Settler['findTransfer'] {
  return async (hashes, authorization, fromBlock) => {
    const { facilitator, payer } = authorization
    try {
      const [transfers, settled] = await Promise.all([
        readPaymentTransfers(client, authorization, fromBlock, 'latest'),
        readSettledNonces(client, facilitator, { payer, fromBlock, toBlock: 'latest' }),
      ])
      const batches = new Set(settled.map(({ transactionHash }) => transactionHash))
      const isSettled = settled.some(
        (nonce) => hashes.includes(nonce.transactionHash) && isSameNonce(nonce, authorization),
      )
      const isTransferred = transfers.some(
        ({ transactionHash }) => hashes.includes(transactionHash) && !batches.has(transactionHash),
      )
      return isSettled || isTransferred ? 'found' : 'missing'
    } catch {
      return 'unreachable'
    }
  }
}
