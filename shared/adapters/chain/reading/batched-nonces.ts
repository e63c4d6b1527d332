import { decodeFunctionData, type PublicClient } from 'viem'
import { batchSettlementAbi } from '../network/contracts.ts'
import { nonceOfCall, type PayerNonce } from './nonce-use.ts'

type Hex = `0x${string}`

/**
 * Returns the nonces that a call of a settlement contract asks to settle, in their order; of none for other calldata.
 * Which of them it settled is in its events only.
 */
export function noncesOfBatch(data: Hex): readonly PayerNonce[] {
  try {
    const call = decodeFunctionData({ abi: batchSettlementAbi, data })
    if (call.functionName !== 'settleMany') return []
    return call.args[0].flatMap((settlement) => nonceOfCall(settlement.call) ?? [])
  } catch {
    // Anyone can send any data to any address.
    return []
  }
}

/** A nonce that a contract reports as settled, and by which transaction. */
export type SettledNonce = PayerNonce & { readonly transactionHash: Hex }

/** Reads the nonces that a contract reports as settled in the blocks, from the log index. One RPC call. */
export async function readSettledNonces(
  client: PublicClient,
  contract: Hex,
  { payer, fromBlock, toBlock }: { payer?: Hex; fromBlock: bigint; toBlock: bigint | 'latest' },
): Promise<readonly SettledNonce[]> {
  const logs = await client.getContractEvents({
    address: contract,
    abi: batchSettlementAbi,
    eventName: 'PaymentSettled',
    ...(payer && { args: { payer } }),
    strict: true,
    fromBlock,
    toBlock,
  })
  return logs.map(({ args, transactionHash }) => ({ payer: args.payer, nonce: args.nonce, transactionHash }))
}
