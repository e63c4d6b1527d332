import { x402UptoPermit2ProxyABI } from '@x402/evm'
import { concatHex, decodeFunctionData, getAbiItem, type Hex, type PublicClient, toFunctionSelector } from 'viem'
import { settlementContractAbi } from '../network/contracts.ts'
import { nonceOfCall, type PayerNonce } from './nonce-use.ts'

/**
 * Returns the nonces that a call of a settlement contract asks to settle, in their order; of none for other calldata.
 * Which of them it settled is in its events only.
 */
export function noncesOfBatch(data: Hex): readonly PayerNonce[] {
  try {
    const call = decodeFunctionData({ abi: settlementContractAbi, data })
    if (call.functionName !== 'settleMany') return []
    return call.args[0].flatMap((settlement) => nonceOfCall(proxyCallOf(settlement.call)) ?? [])
  } catch {
    // Anyone can send any data to any address.
    return []
  }
}

/** Returns the call of the proxy that a settlement makes: behind a lasting permit are the arguments of its `settle`. */
export function proxyCallOf(call: Hex): Hex {
  return call.startsWith(SETTLE_AFTER_PERMIT) ? concatHex([SETTLE, `0x${call.slice(PERMIT_END)}`]) : call
}

const SETTLE = toFunctionSelector(getAbiItem({ abi: x402UptoPermit2ProxyABI, name: 'settle' }))
const SETTLE_AFTER_PERMIT = toFunctionSelector(getAbiItem({ abi: settlementContractAbi, name: 'settleAfterPermit' }))
/** Characters of `0x`, the selector and the five words of a permit. */
const PERMIT_END = 2 + 2 * (4 + 5 * 32)

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
    abi: settlementContractAbi,
    eventName: 'PaymentSettled',
    ...(payer && { args: { payer } }),
    strict: true,
    fromBlock,
    toBlock,
  })
  return logs.map(({ args, transactionHash }) => ({ payer: args.payer, nonce: args.nonce, transactionHash }))
}
