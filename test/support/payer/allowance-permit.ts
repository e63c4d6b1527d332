import { encodeFunctionData, type Hex, parseSignature } from 'viem'
import { usdcAbi } from '#shared/chain/network/contracts.ts'
import type { AllowancePermit } from '#shared/payment/allowance-permit.ts'
import { DEVNET_ADDRESSES } from '../../../infra/sandbox/chain/devnet.ts'
import type { Payer } from './payer.ts'
import { secondsFromNow } from './sign-authorization.ts'
import { signPermit } from './sign-permit.ts'

/** Signs a permit for Permit2 as an owner would send it to be stored: 100 USDC for an hour, but for `changes`. */
export async function signAllowancePermit(
  payer: Pick<Payer, 'address' | 'account'>,
  changes: Partial<Omit<AllowancePermit, 'owner'>> = {},
): Promise<AllowancePermit> {
  const { value = 100_000_000n, nonce = 0n, deadline = secondsFromNow(3600) } = changes
  const owner = payer.address
  const terms = { owner, spender: DEVNET_ADDRESSES.permit2, amount: value, nonce, deadline }
  const signature = changes.signature ?? (await signPermit(payer.account, terms))
  return { owner, value, nonce, deadline, signature }
}

/** Returns the call with which anyone may submit a permit. */
export function permitCall({ owner, value, deadline, signature }: Omit<AllowancePermit, 'nonce'>): {
  to: Hex
  data: Hex
} {
  const { r, s, yParity } = parseSignature(signature)
  const args = [owner, DEVNET_ADDRESSES.permit2, value, deadline, yParity + 27, r, s] as const
  return { to: DEVNET_ADDRESSES.usdc, data: encodeFunctionData({ abi: usdcAbi, functionName: 'permit', args }) }
}
