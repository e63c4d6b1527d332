import { encodeFunctionData, type Hex, prepareEncodeFunctionData } from 'viem'
import { settlementContractAbi } from '../network/contracts.ts'

/** One settlement of a batch: a call of the proxy, and the most gas that it may use. */
export interface BatchItem {
  readonly gas: bigint
  readonly call: Hex
}

/** What a transaction costs before its first settlement: the transaction itself, and looking the key up in the list. */
const BATCH_GAS = 40_000n
/**
 * What surrounds the call of one settlement: its calldata (at most 900 bytes, 13,000 if none were zero), copying it,
 * starting the call and recording its result.
 */
const ITEM_GAS = 20_000n
/** What the contract keeps back from each call, as its own `RESERVED_GAS`. */
const RESERVED_GAS = 10_000n
/** A call gets at most 63/64 of the gas that is left (EIP-150). */
const KEPT_PART = 63n

const settleMany = prepareEncodeFunctionData({ abi: settlementContractAbi, functionName: 'settleMany' })

/** Returns the call that settles all of these through the settlement contract. */
export function settleManyCall(contract: Hex, items: readonly BatchItem[]): { to: Hex; data: Hex } {
  return { to: contract, data: encodeFunctionData({ ...settleMany, args: [items] }) }
}

/** Returns the gas limit with which each settlement of a batch can use all of its gas, even if all others do. */
export function batchGasOf(gasLimits: readonly bigint[]): bigint {
  let [sum, largest] = [0n, 0n]
  for (const gas of gasLimits) {
    sum += gas + ITEM_GAS
    if (gas > largest) largest = gas
  }
  return BATCH_GAS + sum + RESERVED_GAS + (largest + RESERVED_GAS) / KEPT_PART + 1n
}
