import { encodeFunctionData, type Hex, hashTypedData, numberToHex, type PublicClient, parseSignature } from 'viem'
import type { AllowancePermit } from '#shared/payment/allowance-permit.ts'
import { CHAIN_ID, PERMIT2_ADDRESS, USDC_ADDRESS, usdcAbi } from '../network/contracts.ts'
import { isFeeRefusal, isRevert } from '../network/rpc-failure.ts'
import type { Fees } from '../settlement/fee-estimator.ts'
import type { SimulatedFees } from '../verification/settlement-call.ts'

/**
 * The gas limit of a permit's transaction. The devnet's USDC uses 75,000 for an owner's first permit; USDC on Base is
 * reached through a proxy and reads a pause switch and a list of blocked accounts as well, which should take about
 * 10,000 more. Unused gas is not paid, but the limit is what is reserved.
 */
export const PERMIT_GAS = 120_000n
/** 1.2 times what the devnet's USDC uses, which leaves room for what the real one reads beyond it. */
const EXPECTED_GAS = 93_600n
/**
 * How many times the fees of the moment are reserved. Each replacement of a stuck transaction raises its fees by an
 * eighth; a permit without that room would be given up instead. The rest covers a rollup's fee for the data.
 */
const RESERVED_FEES = 2n

/** Returns what a permit is expected to cost, with a margin: a block's base fee and tip are paid, not the fee cap. */
export function expectedGasFor({ baseFeePerGas, maxPriorityFeePerGas }: Fees): bigint {
  return EXPECTED_GAS * (baseFeePerGas + maxPriorityFeePerGas)
}

/** Returns what a permit may cost at most when its transaction is first sent with these fees, in wei. */
export function reservedGasFor({ maxFeePerGas }: SimulatedFees): bigint {
  return PERMIT_GAS * maxFeePerGas * RESERVED_FEES
}

/** The name and version that USDC on Base and the devnet's USDC hash into their domain. */
const DOMAIN = { name: 'USD Coin', version: '2', chainId: CHAIN_ID, verifyingContract: USDC_ADDRESS } as const
const TYPES = {
  Permit: [
    { name: 'owner', type: 'address' },
    { name: 'spender', type: 'address' },
    { name: 'value', type: 'uint256' },
    { name: 'nonce', type: 'uint256' },
    { name: 'deadline', type: 'uint256' },
  ],
} as const

/** Returns the EIP-712 hash of a permit for Permit2, which its owner signs. */
export function permitDigest({ owner, value, nonce, deadline }: Omit<AllowancePermit, 'signature'>): Hex {
  return hashTypedData({
    domain: DOMAIN,
    types: TYPES,
    primaryType: 'Permit',
    message: { owner, spender: PERMIT2_ADDRESS, value, nonce, deadline },
  })
}

export function permitCall({ owner, value, deadline, signature }: AllowancePermit): { to: Hex; data: Hex } {
  const { r, s, yParity } = parseSignature(signature)
  return {
    to: USDC_ADDRESS,
    data: encodeFunctionData({
      abi: usdcAbi,
      functionName: 'permit',
      args: [owner, PERMIT2_ADDRESS, value, deadline, yParity + 27, r, s],
    }),
  }
}

export type SimulatedPermit =
  | { readonly outcome: 'valid' }
  | { readonly outcome: 'refused'; readonly reason: string }
  | { readonly outcome: 'unreachable'; readonly cause: unknown }

/**
 * Simulates a permit as the facilitator's call, with the gas limit and the fees of its transaction. A revert is asked
 * for once more: one wrong answer from a node must not refuse a valid permit.
 */
export async function simulatePermit(
  client: PublicClient,
  permit: AllowancePermit,
  facilitator: Hex,
  fees: SimulatedFees,
): Promise<SimulatedPermit> {
  const first = await simulate(client, permit, facilitator, fees)
  return first.outcome === 'refused' ? await simulate(client, permit, facilitator, fees) : first
}

async function simulate(
  client: PublicClient,
  permit: AllowancePermit,
  facilitator: Hex,
  fees: SimulatedFees | null,
): Promise<SimulatedPermit> {
  const call = {
    from: facilitator,
    ...permitCall(permit),
    gas: numberToHex(PERMIT_GAS),
    ...(fees && {
      maxFeePerGas: numberToHex(fees.maxFeePerGas),
      maxPriorityFeePerGas: numberToHex(fees.maxPriorityFeePerGas),
    }),
  }
  try {
    await client.request({ method: 'eth_call', params: [call, 'latest'] })
    return { outcome: 'valid' }
  } catch (cause) {
    // The settlement key has too little gas, which is checked elsewhere.
    if (fees && isFeeRefusal(cause)) return await simulate(client, permit, facilitator, null)
    return isRevert(cause) ? { outcome: 'refused', reason: reasonOf(cause) } : { outcome: 'unreachable', cause }
  }
}

const LONGEST_REASON = 200

function reasonOf(cause: unknown): string {
  const { details } = cause as { details?: unknown }
  return typeof details === 'string' ? details.slice(0, LONGEST_REASON) : 'execution reverted'
}
