import { setTimeout as delay } from 'node:timers/promises'
import { x402UptoPermit2ProxyABI } from '@x402/evm'
import { decodeFunctionData, encodeFunctionData, type Hex, toHex } from 'viem'
import { settlementContractAbi } from '#shared/chain/network/contracts.ts'
import { proxyCallOf } from '#shared/chain/reading/batched-nonces.ts'
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
    const { functionName, args } = decodeFunctionData({ abi: settlementContractAbi, data })
    if (functionName !== 'settleMany' && functionName !== 'simulateMany') return []
    return args[0].map(({ call }) => paymentOfProxyCall(proxyCallOf(call)))
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

/** A batch that is sent and not mined. */
export interface PendingBatch {
  readonly hash: Hex
  readonly sender: Hex
  /** Of its sender's account. */
  readonly accountNonce: number
  readonly payments: readonly CalledPayment[]
}

interface PooledTransaction {
  readonly hash: Hex
  readonly from: Hex
  readonly nonce: Hex
  readonly to: string | null
  readonly input: Hex
}

const POLL_MS = 15

/** Returns the batches that the node could put into the next block. */
export async function readPendingBatches(rpcUrl: string, contract: string): Promise<readonly PendingBatch[]> {
  const { pending } = await callRpc<{ pending: Record<string, Record<string, PooledTransaction>> }>(
    rpcUrl,
    'txpool_content',
    [],
  )
  return Object.values(pending)
    .flatMap((byNonce) => Object.values(byNonce))
    .filter(({ to }) => to?.toLowerCase() === contract.toLowerCase())
    .map(({ hash, from, nonce, input }) => ({
      hash,
      sender: from,
      accountNonce: Number(nonce),
      payments: paymentsOfCall(input),
    }))
    .filter(({ payments }) => payments.length > 0)
}

/** Waits until a batch of at least `leastPayments` is not mined; returns all that are not, or none when none comes in time. */
export async function untilBatchPends(
  rpcUrl: string,
  contract: string,
  longestMs: number,
  leastPayments = 1,
): Promise<readonly PendingBatch[]> {
  for (const giveUpAt = Date.now() + longestMs; Date.now() < giveUpAt; await delay(POLL_MS)) {
    const batches = await readPendingBatches(rpcUrl, contract)
    if (batches.some(({ payments }) => payments.length >= leastPayments)) return batches
  }
  return []
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
    const data = encodeFunctionData({
      abi: settlementContractAbi,
      functionName: 'setKey',
      args: [key as Hex, isListed],
    })
    await sendUrgently(rpcUrl, owner, { to: contract, data })
  }
}
