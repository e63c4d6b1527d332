import { type ContractFunctionParameters, type PublicClient } from 'viem'
import { z } from 'zod'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import { atomicAmount, dollarsFromAtomic } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { Verification } from '#shared/payment/facilitator.ts'
import { MULTICALL3_ADDRESS, PERMIT2_ADDRESS, permit2Abi, usdcAbi } from '../network/contracts.ts'
import { hasNonce, wordOfNonce } from '../network/permit2-nonce.ts'

/**
 * Finds out why the chain rejects a settlement, for an error that says what to change. Returns `payment_rejected` when
 * no readable state explains it. One RPC call, so all is of the same block.
 */
export async function diagnoseRefusal(
  client: PublicClient,
  authorization: Authorization,
  amount: AtomicAmount,
): Promise<Exclude<Verification, { outcome: 'valid' }>> {
  const { nonce, gasSponsoring } = authorization
  try {
    const { usedNonces, balance, allowance, permitNonce } = await readState(client, authorization)
    if (hasNonce(usedNonces, nonce)) return { outcome: 'refused', code: 'payment_nonce_used' }
    if (balance < amount) {
      const [available, needed] = [dollarsFromAtomic(atomicAmount(balance)), dollarsFromAtomic(amount)]
      return {
        outcome: 'refused',
        code: 'insufficient_funds',
        detail: `The payer has ${available} USDC; ${needed} USDC is needed.`,
      }
    }
    if (allowance < amount && !gasSponsoring)
      return { outcome: 'refused', code: 'permit2_allowance_required', permitNonce }
    // Signed while an earlier payment of the payer was being settled with its own permit.
    if (allowance < amount && gasSponsoring && gasSponsoring.nonce < permitNonce)
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

async function readState(client: PublicClient, { asset, payer, nonce }: Authorization) {
  const contracts: ContractFunctionParameters[] = [
    { address: PERMIT2_ADDRESS, abi: permit2Abi, functionName: 'nonceBitmap', args: [payer, wordOfNonce(nonce)] },
    { address: asset, abi: usdcAbi, functionName: 'balanceOf', args: [payer] },
    { address: asset, abi: usdcAbi, functionName: 'allowance', args: [payer, PERMIT2_ADDRESS] },
    { address: asset, abi: usdcAbi, functionName: 'nonces', args: [payer] },
  ]
  const multicallAddress = MULTICALL3_ADDRESS
  const read = await client.multicall({ allowFailure: false, batchSize: 0, multicallAddress, contracts })
  const [usedNonces, balance, allowance, permitNonce] = stateSchema.parse(read)
  return { usedNonces, balance, allowance, permitNonce }
}

const stateSchema = z.tuple([z.bigint(), z.bigint(), z.bigint(), z.bigint()])
