import type { ContractFunctionParameters, Hex, PublicClient } from 'viem'
import { z } from 'zod'
import type { AllowancePermit, OwnerAllowance } from '#shared/payment/allowance-permit.ts'
import { MULTICALL3_ADDRESS, multicall3Abi, PERMIT2_ADDRESS, USDC_ADDRESS, usdcAbi } from '../network/contracts.ts'
import { recoverSigner } from '../signing/secp256k1.ts'
import { createPayerCodePolicy, delegateOf, type PayerCodePolicy, readAccountCode } from '../verification/payer-code.ts'
import { permitDigest } from './permit-digest.ts'

/** What runs when the signatures of an owner's account are judged. */
export interface OwnerWallet {
  readonly hasCode: boolean
  /** Whether the key of the account may sign permits: without code, or delegating to code that takes its signatures. */
  readonly signsPermits: boolean
  /** Why the account's own code may not pay; `null` when it may, as far as that code decides. */
  readonly refusal: string | null
}

/** An owner's allowance, the code of the account and the block of the reading. */
export interface AllowanceReading extends OwnerAllowance {
  readonly wallet: OwnerWallet
  readonly block: bigint
  /** The block's time in Unix seconds. */
  readonly chainTime: bigint
}

type ReadAllowance =
  | ({ readonly outcome: 'read' } & AllowanceReading)
  | { readonly outcome: 'unreachable'; readonly cause: unknown }

/** Reads allowances and checks permits, without any key. */
export interface AllowanceReader {
  /**
   * Reads at one block: two concurrent RPC calls, of which the first reads everything but the account's code, and one more
   * for a contract that is new here.
   */
  readAllowance(owner: `0x${string}`): Promise<ReadAllowance>
  /** Returns whether the owner's key signed the permit for its nonce. Computed locally. */
  isSignedByOwner(permit: AllowancePermit): boolean
}

/** Creates the reader of allowances. By default no account with code may pay. */
export function createAllowanceReader(
  client: PublicClient,
  payerCode: PayerCodePolicy = createPayerCodePolicy(client),
): AllowanceReader {
  const readWallet = async (owner: Hex): Promise<OwnerWallet> => {
    const code = await readAccountCode(client, owner)
    const judged = await payerCode.judge(owner, code)
    if (judged.outcome === 'unreachable') throw judged.cause
    const isAllowed = judged.outcome === 'allowed'
    return {
      hasCode: code.size > 0n,
      signsPermits: isAllowed && (code.size === 0n || delegateOf(code) !== null),
      refusal: isAllowed ? null : (judged.detail ?? judged.code),
    }
  }
  return {
    readAllowance: async (owner) => {
      try {
        const [reading, wallet] = await Promise.all([readOwner(client, owner), readWallet(owner)])
        return { outcome: 'read', ...reading, wallet }
      } catch (cause) {
        return { outcome: 'unreachable', cause }
      }
    },
    isSignedByOwner: (permit) => recoverSigner(permitDigest(permit), permit.signature) === permit.owner.toLowerCase(),
  }
}

const resultsSchema = z.tuple([z.bigint(), z.bigint(), z.bigint(), z.bigint(), z.bigint()])

/** Reads an owner's funds, allowance and permit nonce in one `eth_call`, so all are of the same block. */
async function readOwner(client: PublicClient, owner: `0x${string}`): Promise<Omit<AllowanceReading, 'wallet'>> {
  const contracts: ContractFunctionParameters[] = [
    { address: MULTICALL3_ADDRESS, abi: multicall3Abi, functionName: 'getBlockNumber' },
    { address: MULTICALL3_ADDRESS, abi: multicall3Abi, functionName: 'getCurrentBlockTimestamp' },
    { address: USDC_ADDRESS, abi: usdcAbi, functionName: 'balanceOf', args: [owner] },
    { address: USDC_ADDRESS, abi: usdcAbi, functionName: 'allowance', args: [owner, PERMIT2_ADDRESS] },
    { address: USDC_ADDRESS, abi: usdcAbi, functionName: 'nonces', args: [owner] },
  ]
  // Never split: two calls could read two blocks.
  const options = { allowFailure: false, batchSize: 0, multicallAddress: MULTICALL3_ADDRESS } as const
  const results = await client.multicall({ ...options, contracts })
  const [block, chainTime, balance, allowance, permitNonce] = resultsSchema.parse(results)
  return { block, chainTime, balance, allowance, permitNonce }
}
