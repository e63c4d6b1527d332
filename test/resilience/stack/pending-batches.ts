import { setTimeout as delay } from 'node:timers/promises'
import { x402UptoPermit2ProxyABI } from '@x402/evm'
import { decodeFunctionData, encodeFunctionData, type Hex, toHex } from 'viem'
import { batchSettlementAbi } from '#shared/adapters/chain/network/contracts.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'

/** A payment as the calldata of a settlement states it. */
export interface CalledPayment {
  /** In lower case. */
  readonly payer: Hex
  readonly nonce: bigint
  readonly amount: bigint
  readonly maximum: bigint
}

/** Returns the payments of a call of the settlement contract, or none of another call. */
export function paymentsOfCall(data: Hex): readonly CalledPayment[] {
  try {
    const { functionName, args } = decodeFunctionData({ abi: batchSettlementAbi, data })
    if (functionName !== 'settleMany' && functionName !== 'simulateMany') return []
    return args[0].map(({ call }) => paymentOfProxyCall(call))
  } catch {
    return []
  }
}

/** Reads a call of the x402 proxy. */
export function paymentOfProxyCall(data: Hex): CalledPayment {
  const { functionName, args } = decodeFunctionData({ abi: x402UptoPermit2ProxyABI, data })
  if (functionName !== 'settle' && functionName !== 'settleWithPermit')
    throw new Error(`${functionName} settles nothing`)
  const [permit, amount, owner] = functionName === 'settle' ? args : ([args[1], args[2], args[3]] as const)
  return { payer: owner.toLowerCase() as Hex, nonce: permit.nonce, amount, maximum: permit.permitted.amount }
}

interface PooledTransaction {
  readonly hash: Hex
  readonly to: string | null
  readonly input: Hex
}

const POLL_MS = 15

/** Waits for a batch that is not mined; returns its payments, or `null` when none comes in time. */
export async function untilBatchPends(
  rpcUrl: string,
  contract: string,
  longestMs: number,
): Promise<readonly CalledPayment[] | null> {
  for (const giveUpAt = Date.now() + longestMs; Date.now() < giveUpAt; await delay(POLL_MS)) {
    const { pending } = await callRpc<{ pending: Record<string, Record<string, PooledTransaction>> }>(
      rpcUrl,
      'txpool_content',
      [],
    )
    const batches = Object.values(pending)
      .flatMap((byNonce) => Object.values(byNonce))
      .filter(({ to }) => to?.toLowerCase() === contract.toLowerCase())
      .map(({ input }) => paymentsOfCall(input))
    const payments = batches.flat()
    if (payments.length > 0) return payments
  }
  return null
}

/** More than settlements offer, so that it comes first in its block. */
const URGENT_TIP = 50_000_000_000n

/** Sends a transaction of an account that is not a client's own; it comes before all settlements of its block. */
export async function sendUrgently(rpcUrl: string, from: Hex, { to, data }: { to: Hex; data: Hex }): Promise<Hex> {
  await callRpc(rpcUrl, 'anvil_setBalance', [from, toHex(10n ** 20n)])
  await callRpc(rpcUrl, 'anvil_impersonateAccount', [from])
  const fees = { maxFeePerGas: toHex(2n * URGENT_TIP), maxPriorityFeePerGas: toHex(URGENT_TIP), gas: toHex(300_000n) }
  return await callRpc<Hex>(rpcUrl, 'eth_sendTransaction', [{ from, to, data, ...fees }])
}

/** The settlement contract of a stack. */
export interface ListedKeys {
  readonly rpcUrl: string
  readonly contract: Hex
  readonly owner: Hex
  readonly keys: readonly string[]
}

/** Sends what takes all keys off the contract's list, or puts them on it again. */
export async function listKeys({ rpcUrl, contract, owner, keys }: ListedKeys, isListed: boolean): Promise<void> {
  for (const key of keys) {
    const data = encodeFunctionData({ abi: batchSettlementAbi, functionName: 'setKey', args: [key as Hex, isListed] })
    await sendUrgently(rpcUrl, owner, { to: contract, data })
  }
}
