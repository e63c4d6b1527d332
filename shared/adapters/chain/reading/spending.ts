import { isAddressEqual, type PublicClient } from 'viem'
import { UPTO_PROXY_ADDRESS } from '../network/contracts.ts'
import { type BatchTransfer, paymentsOfReceipt } from '../settlement-contract/batch-receipt.ts'
import { noncesOfBatch } from './batched-nonces.ts'
import { nonceOfCall, type PayerNonce } from './nonce-use.ts'

type Hex = `0x${string}`

/** A nonce that a successful transaction spent by settling a payment. */
export interface Spending extends PayerNonce {
  /** What a settlement contract reports of it; `null` for a call of the proxy itself, which settles one payment. */
  readonly inBatch: { readonly contract: Hex; readonly transfers: readonly BatchTransfer[] } | null
}

/**
 * Reads the nonces that a successful transaction spent. Only a call of the proxy, or what the called contract reports of
 * a batch, proves a settlement: other calldata may contain anything, including signatures of payments that it does not
 * settle. Whether the contract is to be trusted is decided by who signed it as facilitator. One RPC call, two for a batch.
 */
export async function readSpending(client: PublicClient, hash: Hex): Promise<readonly Spending[]> {
  const { to, input } = await client.getTransaction({ hash })
  if (to === null) return []
  if (isAddressEqual(to, UPTO_PROXY_ADDRESS)) {
    const nonce = nonceOfCall(input)
    return nonce ? [{ ...nonce, inBatch: null }] : []
  }
  if (noncesOfBatch(input).length === 0) return []
  const receipt = await client.getTransactionReceipt({ hash })
  return paymentsOfReceipt(receipt).flatMap(({ payer, nonce, isSettled, transfers }) =>
    isSettled ? [{ payer, nonce, inBatch: { contract: to, transfers } }] : [],
  )
}
