import type { PublicClient } from 'viem'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import { atomicAmount, dollarsFromAtomic } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { Verification } from '#shared/payment/facilitator.ts'
import { PERMIT2_ADDRESS, permit2Abi, usdcAbi } from '../network/contracts.ts'
import { hasNonce, wordOfNonce } from '../network/permit2-nonce.ts'

/**
 * Finds out why the chain rejects a settlement, for an error that says what to change. Returns `payment_rejected` when
 * no readable state explains it. Three concurrent RPC calls, or four with a permit.
 */
export async function diagnoseRefusal(
  client: PublicClient,
  authorization: Authorization,
  amount: AtomicAmount,
): Promise<Exclude<Verification, { outcome: 'valid' }>> {
  const { asset, payer, nonce, gasSponsoring } = authorization
  try {
    const [usedNonces, balance, allowance, permitNonce] = await Promise.all([
      client.readContract({
        address: PERMIT2_ADDRESS,
        abi: permit2Abi,
        functionName: 'nonceBitmap',
        args: [payer, wordOfNonce(nonce)],
      }),
      client.readContract({ address: asset, abi: usdcAbi, functionName: 'balanceOf', args: [payer] }),
      client.readContract({ address: asset, abi: usdcAbi, functionName: 'allowance', args: [payer, PERMIT2_ADDRESS] }),
      gasSponsoring && client.readContract({ address: asset, abi: usdcAbi, functionName: 'nonces', args: [payer] }),
    ])
    if (hasNonce(usedNonces, nonce)) return { outcome: 'refused', code: 'payment_nonce_used' }
    if (balance < amount) {
      const [available, needed] = [dollarsFromAtomic(atomicAmount(balance)), dollarsFromAtomic(amount)]
      return {
        outcome: 'refused',
        code: 'insufficient_funds',
        detail: `The payer has ${available} USDC; ${needed} USDC is needed.`,
      }
    }
    if (allowance < amount && !gasSponsoring) return { outcome: 'refused', code: 'permit2_allowance_required' }
    // Signed while an earlier payment of the payer was being settled with its own permit.
    if (allowance < amount && gasSponsoring && permitNonce !== null && gasSponsoring.nonce < permitNonce)
      return { outcome: 'refused', code: 'permit_already_used' }
    if (allowance < amount)
      return {
        outcome: 'refused',
        code: 'payment_rejected',
        detail: 'The chain rejects the gas-sponsoring permit of this payment.',
      }
    return { outcome: 'refused', code: 'payment_rejected' }
  } catch (cause) {
    return { outcome: 'unreachable', cause }
  }
}
