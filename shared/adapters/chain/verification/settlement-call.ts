import { x402UptoPermit2ProxyABI } from '@x402/evm'
import { encodeFunctionData, numberToHex, type PublicClient, parseSignature, prepareEncodeFunctionData } from 'viem'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import { UPTO_PROXY_ADDRESS } from '../network/contracts.ts'
import { isFeeRefusal, isRevert } from '../network/rpc-failure.ts'

/**
 * Gas limits. Measured on a devnet: 91,000 to 128,000 for `settle`, 177,000 for `settleWithPermit`. Unused gas is not
 * paid.
 */
export const SETTLE_GAS = 200_000n
export const SETTLE_WITH_PERMIT_GAS = 300_000n
/** The gas that `settleWithPermit` uses. */
export const EXPECTED_SETTLE_WITH_PERMIT_GAS = 177_000n

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

/** The fees of the transaction that will be sent. */
export interface SimulatedFees {
  readonly maxFeePerGas: bigint
  readonly maxPriorityFeePerGas: bigint
}

/**
 * Simulates the settlement as the facilitator's call, with the gas limit and the fees of the transaction: a payer's
 * code could otherwise pass the simulation with more gas than the transaction has, or recognize it by its gas price.
 * Prefers to succeed without the permit: submitting it would replace a lasting approval with a single payment's
 * maximum. One RPC call, or two concurrent ones when the payment has a permit.
 */
export async function simulateSettlement(
  client: PublicClient,
  authorization: Authorization,
  amount: AtomicAmount,
  fees: SimulatedFees | null,
): Promise<Simulation> {
  const [plain, withPermit] = await Promise.all([
    simulate(client, authorization, amount, { submitsPermit: false, fees }),
    authorization.gasSponsoring ? simulate(client, authorization, amount, { submitsPermit: true, fees }) : null,
  ])
  if (plain.outcome !== 'reverts' || !withPermit) return plain
  return withPermit
}

interface SimulationTerms {
  readonly submitsPermit: boolean
  readonly fees: SimulatedFees | null
}

async function simulate(
  client: PublicClient,
  authorization: Authorization,
  amount: AtomicAmount,
  { submitsPermit, fees }: SimulationTerms,
): Promise<Simulation> {
  const call = {
    // The proxy lets only the facilitator that the payer signed settle, so the call must come from that address.
    from: authorization.facilitator,
    ...settlementCall(authorization, amount, { submitsPermit }),
    gas: numberToHex(submitsPermit ? SETTLE_WITH_PERMIT_GAS : SETTLE_GAS),
    ...(fees && {
      maxFeePerGas: numberToHex(fees.maxFeePerGas),
      maxPriorityFeePerGas: numberToHex(fees.maxPriorityFeePerGas),
    }),
  }
  try {
    await client.request({ method: 'eth_call', params: [call, 'latest'] })
    return { outcome: 'succeeds', needsPermit: submitsPermit }
  } catch (cause) {
    // The settlement key has too little gas, or the fee limit is too low. That is reported where gas is checked.
    if (fees && isFeeRefusal(cause)) return await simulate(client, authorization, amount, { submitsPermit, fees: null })
    return isRevert(cause) ? { outcome: 'reverts' } : { outcome: 'unreachable', cause }
  }
}
