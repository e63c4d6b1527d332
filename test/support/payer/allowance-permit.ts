import { permitDigest } from '#shared/chain/allowance/permit-call.ts'
import type { AllowancePermit } from '#shared/payment/allowance-permit.ts'
import { DEVNET_ADDRESSES } from '../../../infra/sandbox/chain/devnet.ts'
import type { Payer } from './payer.ts'
import { secondsFromNow } from './sign-authorization.ts'
import { signPermit } from './sign-permit.ts'

export type RequestedPermit = AllowancePermit & { readonly digest: `0x${string}` }

/** Signs a permit for Permit2 as an owner would send it to be sponsored: 100 USDC for an hour, but for `changes`. */
export async function signAllowancePermit(
  payer: Pick<Payer, 'address' | 'account'>,
  changes: Partial<Omit<AllowancePermit, 'owner'>> = {},
): Promise<RequestedPermit> {
  const { value = 100_000_000n, nonce = 0n, deadline = secondsFromNow(3600) } = changes
  const owner = payer.address
  const terms = { owner, spender: DEVNET_ADDRESSES.permit2, amount: value, nonce, deadline }
  const signature = changes.signature ?? (await signPermit(payer.account, terms))
  const permit = { owner, value, nonce, deadline, signature }
  return { ...permit, digest: permitDigest(permit) }
}
