import { x402UptoPermit2ProxyABI } from '@x402/evm'
import { encodeFunctionData, type PublicClient, parseSignature } from 'viem'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import { UPTO_PROXY_ADDRESS } from './contracts.ts'
import { isRevert } from './rpc-failure.ts'

/** The proxy call that moves `amount` from payer to recipient; it submits the payer's EIP-2612 permit when one came along. */
export function settlementCall(
  authorization: Authorization,
  amount: AtomicAmount,
): { to: `0x${string}`; data: `0x${string}` } {
  const { gasSponsoring: permit } = authorization
  const transfer = [
    {
      permitted: { token: authorization.asset, amount: authorization.authorizedMaximum },
      nonce: authorization.nonce,
      deadline: authorization.deadline,
    },
    amount,
    authorization.payer,
    {
      to: authorization.payTo,
      facilitator: authorization.facilitator,
      validAfter: authorization.validAfter,
    },
    authorization.signature,
  ] as const
  if (!permit)
    return {
      to: UPTO_PROXY_ADDRESS,
      data: encodeFunctionData({ abi: x402UptoPermit2ProxyABI, functionName: 'settle', args: transfer }),
    }
  const { r, s, yParity } = parseSignature(permit.signature)
  const submitted = { value: permit.amount, deadline: permit.deadline, r, s, v: yParity + 27 }
  return {
    to: UPTO_PROXY_ADDRESS,
    data: encodeFunctionData({
      abi: x402UptoPermit2ProxyABI,
      functionName: 'settleWithPermit',
      args: [submitted, ...transfer],
    }),
  }
}

/** Runs the settlement as the facilitator would, without sending it. One RPC call. */
export async function simulateSettlement(
  client: PublicClient,
  authorization: Authorization,
  amount: AtomicAmount,
): Promise<{ outcome: 'succeeds' } | { outcome: 'reverts' } | { outcome: 'unreachable'; cause: unknown }> {
  const call = settlementCall(authorization, amount)
  try {
    // The proxy settles only for the facilitator that the payer named, so the call must come from that address.
    await client.request({ method: 'eth_call', params: [{ from: authorization.facilitator, ...call }, 'latest'] })
    return { outcome: 'succeeds' }
  } catch (cause) {
    return isRevert(cause) ? { outcome: 'reverts' } : { outcome: 'unreachable', cause }
  }
}
