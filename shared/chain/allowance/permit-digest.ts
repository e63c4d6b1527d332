import { type Hex, hashTypedData } from 'viem'
import type { AllowancePermit } from '#shared/payment/allowance-permit.ts'
import { CHAIN_ID, PERMIT2_ADDRESS, USDC_ADDRESS } from '../network/contracts.ts'

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
