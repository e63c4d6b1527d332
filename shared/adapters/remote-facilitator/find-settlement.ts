import type { PublicClient } from 'viem'
import { PERMIT2_ADDRESS, permit2Abi } from '#shared/chain/network/contracts.ts'
import { hasNonce, wordOfNonce } from '#shared/chain/network/permit2-nonce.ts'
import { isSameNonce, readSpentNonce, wasInvalidated } from '#shared/chain/reading/nonce-use.ts'
import { readPaymentTransfers } from '#shared/chain/reading/read-payment-transfers.ts'
import type { ConfirmTransfer } from '#shared/chain/settlement/confirm-transfer.ts'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { Confirmation } from '#shared/payment/facilitator.ts'
import type { SettlementFinding } from '#shared/payment/remote-facilitator.ts'

export interface ChainReading {
  readonly client: PublicClient
  readonly confirmTransfer: ConfirmTransfer
}

/**
 * Confirms a transaction whose hash comes from elsewhere. Like `confirmTransfer`, and the transaction must also spend
 * this authorization's nonce: two calls of one payer often cost the same, and one transfer must not pay for both.
 */
export async function confirmSettlement(
  { client, confirmTransfer }: ChainReading,
  hash: `0x${string}`,
  authorization: Authorization,
  chargeAmount: AtomicAmount,
): Promise<Confirmation> {
  const confirmation = await confirmTransfer(hash, authorization, chargeAmount)
  if (confirmation.outcome !== 'confirmed') return confirmation
  try {
    const spent = await readSpentNonce(client, hash)
    if (spent !== null && isSameNonce(spent, authorization)) return confirmation
    return { outcome: 'transfer_missing', blockNumber: confirmation.blockNumber }
  } catch (cause) {
    return { outcome: 'unreachable', cause }
  }
}

/** Finds out from the chain alone whether an authorization was settled. Two RPC calls while it is open. */
export async function findSettlement(
  reading: ChainReading,
  authorization: Authorization,
  chargeAmount: AtomicAmount,
  firstBlock: bigint,
): Promise<SettlementFinding> {
  const { client } = reading
  try {
    const { number, hash, timestamp } = await client.getBlock()
    const readAt = { blockNumber: number, blockHash: hash }
    // At the same block, so a node that lags behind cannot combine an unused nonce with a later time.
    if (!(await isNonceUsed(client, authorization, number)))
      return { outcome: timestamp > authorization.deadline ? 'expired' : 'open', ...readAt }
    return (
      (await findTransfer(reading, authorization, chargeAmount, firstBlock)) ??
      ((await wasInvalidated(client, authorization, firstBlock, 'latest'))
        ? { outcome: 'burned', ...readAt }
        : { outcome: 'unexplained' })
    )
  } catch (cause) {
    return { outcome: 'unreachable', cause }
  }
}

async function isNonceUsed(
  client: PublicClient,
  { payer, nonce }: Authorization,
  blockNumber: bigint,
): Promise<boolean> {
  const call = { address: PERMIT2_ADDRESS, abi: permit2Abi, functionName: 'nonceBitmap', blockNumber } as const
  const bitmap = await client.readContract({ ...call, args: [payer, wordOfNonce(nonce)] })
  return hasNonce(bitmap, nonce)
}

async function findTransfer(
  reading: ChainReading,
  authorization: Authorization,
  chargeAmount: AtomicAmount,
  fromBlock: bigint,
): Promise<Extract<SettlementFinding, { outcome: 'found' | 'unreachable' }> | null> {
  const transfers = await readPaymentTransfers(reading.client, authorization, fromBlock, 'latest')
  for (const { args, transactionHash: hash } of transfers) {
    if (args.value !== chargeAmount) continue
    const confirmation = await confirmSettlement(reading, hash, authorization, chargeAmount)
    if (confirmation.outcome === 'unreachable') return confirmation
    // Not deep enough yet to conclude anything.
    if (confirmation.outcome === 'pending')
      return { outcome: 'unreachable', cause: new Error(`${hash} is not deep enough`) }
    if (confirmation.outcome === 'confirmed') return { ...confirmation, outcome: 'found', hash }
  }
  return null
}
