import { x402UptoPermit2ProxyABI } from '@x402/evm'
import { encodeFunctionData, type PublicClient, parseSignature, prepareEncodeFunctionData } from 'viem'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import { UPTO_PROXY_ADDRESS } from '../network/contracts.ts'
import { isRevert } from '../network/rpc-failure.ts'

/**
 * Gas limits. Measured on a devnet: 91,000 to 128,000 for `settle`, 177,000 for `settleWithPermit`. Unused gas is not
 * paid.
 */
export const SETTLE_GAS = 200_000n
export const SETTLE_WITH_PERMIT_GAS = 300_000n

/* Finds each function and hashes its selector once. viem would do both for every call. */
const settle = prepareEncodeFunctionData({ abi: x402UptoPermit2ProxyABI, functionName: 'settle' })
const settleWithPermit = prepareEncodeFunctionData({ abi: x402UptoPermit2ProxyABI, functionName: 'settleWithPermit' })

/**
 * Returns the proxy call that moves `amount` from payer to recipient; with `submitsPermit` it submits the payer's
 * EIP-2612 permit first.
 */
export function settlementCall(
  authorization: Authorization,
  amount: AtomicAmount,
  { submitsPermit }: { submitsPermit: boolean },
): { to: `0x${string}`; data: `0x${string}` } {
  const { gasSponsoring: permit } = authorization
  if (submitsPermit && !permit) throw new Error('an authorization without a permit cannot submit one')
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
  if (!submitsPermit || !permit)
    return {
      to: UPTO_PROXY_ADDRESS,
      data: encodeFunctionData({ ...settle, args: transfer }),
    }
  const { r, s, yParity } = parseSignature(permit.signature)
  const submitted = { value: permit.amount, deadline: permit.deadline, r, s, v: yParity + 27 }
  return {
    to: UPTO_PROXY_ADDRESS,
    data: encodeFunctionData({ ...settleWithPermit, args: [submitted, ...transfer] }),
  }
}

export type Simulation =
  | { outcome: 'succeeds'; needsPermit: boolean }
  | { outcome: 'reverts' }
  | { outcome: 'unreachable'; cause: unknown }

/**
 * Simulates the settlement as the facilitator's call. Prefers to succeed without the permit: submitting it would
 * replace a lasting approval with a single payment's maximum. One RPC call, or two concurrent ones when the payment has
 * a permit.
 */
export async function simulateSettlement(
  client: PublicClient,
  authorization: Authorization,
  amount: AtomicAmount,
): Promise<Simulation> {
  const [plain, withPermit] = await Promise.all([
    simulate(client, authorization, amount, false),
    authorization.gasSponsoring ? simulate(client, authorization, amount, true) : null,
  ])
  if (plain.outcome !== 'reverts' || !withPermit) return plain
  return withPermit
}

async function simulate(
  client: PublicClient,
  authorization: Authorization,
  amount: AtomicAmount,
  submitsPermit: boolean,
): Promise<Simulation> {
  const call = settlementCall(authorization, amount, { submitsPermit })
  try {
    // The proxy lets only the facilitator that the payer signed settle, so the call must come from that address.
    await client.request({ method: 'eth_call', params: [{ from: authorization.facilitator, ...call }, 'latest'] })
    return { outcome: 'succeeds', needsPermit: submitsPermit }
  } catch (cause) {
    return isRevert(cause) ? { outcome: 'reverts' } : { outcome: 'unreachable', cause }
  }
}
