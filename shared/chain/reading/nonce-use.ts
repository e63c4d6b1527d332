import { x402UptoPermit2ProxyABI } from '@x402/evm'
import { decodeFunctionData, isAddressEqual, type PublicClient, parseAbi } from 'viem'
import type { Authorization } from '#shared/payment/authorization.ts'
import { PERMIT2_ADDRESS, UPTO_PROXY_ADDRESS } from '../network/contracts.ts'
import { hasNonce, wordOfNonce } from '../network/permit2-nonce.ts'

/** A nonce and the payer whose it is. */
export type PayerNonce = Pick<Authorization, 'payer' | 'nonce'>

const invalidationAbi = parseAbi([
  'event UnorderedNonceInvalidation(address indexed owner, uint256 word, uint256 mask)',
])

/**
 * Returns the nonce that a successful transaction spent by settling through the proxy; `null` for any other one. Only
 * the call of the proxy proves a settlement: other calldata may contain anything, including signatures of payments that
 * it does not settle.
 */
export async function readSpentNonce(client: PublicClient, hash: `0x${string}`): Promise<PayerNonce | null> {
  const { to, input } = await client.getTransaction({ hash })
  return to !== null && isAddressEqual(to, UPTO_PROXY_ADDRESS) ? nonceOfCall(input) : null
}

export function isSameNonce(one: PayerNonce, other: PayerNonce): boolean {
  return one.nonce === other.nonce && isAddressEqual(one.payer, other.payer)
}

/** Returns whether the payer invalidated the nonce. Permit2 emits an event for that, and none for a spent nonce. */
export async function wasInvalidated(
  client: PublicClient,
  { payer, nonce }: PayerNonce,
  fromBlock: bigint,
  toBlock: bigint | 'latest',
): Promise<boolean> {
  const logs = await client.getContractEvents({
    address: PERMIT2_ADDRESS,
    abi: invalidationAbi,
    eventName: 'UnorderedNonceInvalidation',
    args: { owner: payer },
    strict: true,
    fromBlock,
    toBlock,
  })
  return logs.some(({ args }) => args.word === wordOfNonce(nonce) && hasNonce(args.mask, nonce))
}

/** Returns the nonce that a call of the proxy spends if it succeeds; `null` for any other data. */
export function nonceOfCall(data: `0x${string}`): PayerNonce | null {
  try {
    const call = decodeFunctionData({ abi: x402UptoPermit2ProxyABI, data })
    if (call.functionName === 'settle') return { payer: call.args[2], nonce: call.args[0].nonce }
    if (call.functionName === 'settleWithPermit') return { payer: call.args[3], nonce: call.args[1].nonce }
    return null
  } catch {
    // Anyone can send the proxy data that cannot be decoded.
    return null
  }
}
