import { decodeFunctionData } from 'viem'
import { createChainClient } from '#shared/chain/network/client.ts'
import { settlementContractAbi } from '#shared/chain/network/contracts.ts'
import { createFeeEstimator } from '#shared/chain/settlement/fee-estimator.ts'
import { createAuthorizationVerifier } from '#shared/chain/verification/authorization-verifier.ts'
import { createPayerCodePolicy } from '#shared/chain/verification/payer-code.ts'
import { createSettlementVerification } from '#shared/chain/verification/settlement-verification.ts'
import type { AuthorizationVerifier } from '#shared/payment/facilitator.ts'
import { PATIENCE_MS } from '../patience.ts'
import type { RpcCall } from './rpc-proxy.ts'

type Hex = `0x${string}`

interface ContractVerifierOptions {
  readonly rpcUrl: string
  readonly contract: Hex
  /** Default: not known. */
  readonly sender?: Hex
  readonly allowedDelegates?: readonly Hex[] | null
  readonly timeoutMs?: number
  /** As workers have it; default: as the API. */
  readonly areAccepted?: boolean
}

/** Creates a verifier as API and workers have it with a settlement contract, with a memory of its own. */
export function createContractVerifier(options: ContractVerifierOptions): AuthorizationVerifier {
  const { rpcUrl, contract, sender, allowedDelegates, timeoutMs = PATIENCE_MS, areAccepted = false } = options
  const client = createChainClient(rpcUrl, timeoutMs)
  const readFees = createFeeEstimator(client)
  const settlements = createSettlementVerification(client, { contract, sender, readFees })
  return createAuthorizationVerifier(client, 8453, {
    payerCode: createPayerCodePolicy(client, allowedDelegates),
    settlements,
    areAccepted,
  })
}

/** An `eth_call` as a node receives it. */
export interface EthCall {
  readonly from?: Hex
  readonly to: Hex
  readonly data: Hex
  readonly gas?: Hex
  readonly maxFeePerGas?: Hex
}

/** Returns the entries of a call of `simulateMany`, and none for any other call. */
export function simulatedEntries({ method, params }: RpcCall): readonly Hex[] {
  if (method !== 'eth_call') return []
  try {
    const { functionName, args } = decodeFunctionData({ abi: settlementContractAbi, data: (params[0] as EthCall).data })
    return functionName === 'simulateMany' ? args[0].map(({ call }) => call) : []
  } catch {
    return []
  }
}
