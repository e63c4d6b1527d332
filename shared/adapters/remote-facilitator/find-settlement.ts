import { x402UptoPermit2ProxyABI } from '@x402/evm'
import { decodeFunctionData, isAddressEqual, type PublicClient, parseAbi } from 'viem'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { Confirmation } from '#shared/payment/facilitator.ts'
import type { SettlementFinding } from '#shared/payment/remote-facilitator.ts'
import { PERMIT2_ADDRESS, permit2Abi, UPTO_PROXY_ADDRESS } from '../chain/network/contracts.ts'
import { hasNonce, wordOfNonce } from '../chain/network/permit2-nonce.ts'
import { readPaymentTransfers } from '../chain/reading/read-payment-transfers.ts'
import type { ConfirmTransfer } from '../chain/settlement/confirm-transfer.ts'

export interface ChainReading {
  readonly client: PublicClient
  readonly confirmTransfer: ConfirmTransfer
}

const invalidationAbi = parseAbi([
  'event UnorderedNonceInvalidation(address indexed owner, uint256 word, uint256 mask)',
])

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
    if (await spendsNonce(client, hash, authorization)) return confirmation
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
      ((await wasInvalidated(client, authorization, firstBlock))
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

/** Returns whether the payer invalidated the nonce. Permit2 emits an event for that, and none for a spent nonce. */
async function wasInvalidated(
  client: PublicClient,
  { payer, nonce }: Authorization,
  fromBlock: bigint,
): Promise<boolean> {
  const logs = await client.getContractEvents({
    address: PERMIT2_ADDRESS,
    abi: invalidationAbi,
    eventName: 'UnorderedNonceInvalidation',
    args: { owner: payer },
    strict: true,
    fromBlock,
    toBlock: 'latest',
  })
  return logs.some(({ args }) => args.word === wordOfNonce(nonce) && hasNonce(args.mask, nonce))
}

async function spendsNonce(
  client: PublicClient,
  hash: `0x${string}`,
  { payer, nonce }: Authorization,
): Promise<boolean> {
  const { to, input } = await client.getTransaction({ hash })
  return to !== null && isAddressEqual(to, UPTO_PROXY_ADDRESS) && isCallFor(input, payer, nonce)
}

function isCallFor(data: `0x${string}`, payer: `0x${string}`, nonce: bigint): boolean {
  try {
    const call = decodeFunctionData({ abi: x402UptoPermit2ProxyABI, data })
    if (call.functionName !== 'settle' && call.functionName !== 'settleWithPermit') return false
    const [permit, owner] = call.functionName === 'settle' ? [call.args[0], call.args[2]] : [call.args[1], call.args[3]]
    return permit.nonce === nonce && isAddressEqual(owner, payer)
  } catch {
    // The hash may name any transaction, including one that cannot be decoded.
    return false
  }
}
