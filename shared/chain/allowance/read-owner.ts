import type { ContractFunctionParameters, Hex, PublicClient } from 'viem'
import { z } from 'zod'
import type { OwnerAllowance } from '#shared/payment/allowance-permit.ts'
import { MULTICALL3_ADDRESS, multicall3Abi, PERMIT2_ADDRESS, USDC_ADDRESS, usdcAbi } from '../network/contracts.ts'

/** An owner's allowance, the code of the account and the block of the reading. */
export interface AllowanceReading extends OwnerAllowance {
  /** Whether the account runs code: its signatures are judged by that code, at any cost of gas. */
  readonly hasCode: boolean
  readonly block: bigint
  /** The block's time in Unix seconds. */
  readonly chainTime: bigint
}

export type OwnerReading = Omit<AllowanceReading, 'hasCode'>

const resultsSchema = z.tuple([z.bigint(), z.bigint(), z.bigint(), z.bigint(), z.bigint()])

/** Reads an owner's funds, allowance and permit nonce in one `eth_call`, so all are of the same block. */
export async function readOwner(client: PublicClient, owner: Hex, blockHash?: Hex): Promise<OwnerReading> {
  const contracts: ContractFunctionParameters[] = [
    { address: MULTICALL3_ADDRESS, abi: multicall3Abi, functionName: 'getBlockNumber' },
    { address: MULTICALL3_ADDRESS, abi: multicall3Abi, functionName: 'getCurrentBlockTimestamp' },
    { address: USDC_ADDRESS, abi: usdcAbi, functionName: 'balanceOf', args: [owner] },
    { address: USDC_ADDRESS, abi: usdcAbi, functionName: 'allowance', args: [owner, PERMIT2_ADDRESS] },
    { address: USDC_ADDRESS, abi: usdcAbi, functionName: 'nonces', args: [owner] },
  ]
  const results = await client.multicall({
    allowFailure: false,
    // Never split: two calls could read two blocks.
    batchSize: 0,
    multicallAddress: MULTICALL3_ADDRESS,
    contracts,
    ...(blockHash && { blockHash, requireCanonical: true }),
  })
  const [block, chainTime, balance, allowance, permitNonce] = resultsSchema.parse(results)
  return { block, chainTime, balance, allowance, permitNonce }
}
