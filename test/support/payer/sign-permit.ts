import type { Address, Hex } from 'viem'
import { DEVNET_ADDRESSES, DEVNET_CHAIN_ID } from '../../../infra/sandbox/chain/devnet.ts'
import type { PayerAccount } from './payer.ts'

/** The terms of an EIP-2612 permit for USDC. */
export interface PermitTerms {
  readonly owner: Address
  readonly spender: Address
  readonly amount: bigint
  readonly nonce: bigint
  readonly deadline: bigint
}

export const PERMIT_TYPES = {
  Permit: [
    { name: 'owner', type: 'address' },
    { name: 'spender', type: 'address' },
    { name: 'value', type: 'uint256' },
    { name: 'nonce', type: 'uint256' },
    { name: 'deadline', type: 'uint256' },
  ],
} as const

/** Signs an EIP-2612 permit, which lets `spender` spend the owner's USDC without a transaction of the owner. */
export function signPermit(
  signer: Pick<PayerAccount, 'signTypedData'>,
  { owner, spender, amount, nonce, deadline }: PermitTerms,
): Promise<Hex> {
  return signer.signTypedData({
    domain: { name: 'USD Coin', version: '2', chainId: DEVNET_CHAIN_ID, verifyingContract: DEVNET_ADDRESSES.usdc },
    types: PERMIT_TYPES,
    primaryType: 'Permit',
    message: { owner, spender, value: amount, nonce, deadline },
  })
}
