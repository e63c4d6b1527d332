import { concatHex, type Hex, toHex } from 'viem'
import { DEVNET_ADDRESSES } from '../../../infra/sandbox/chain/devnet.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'

/** Gas that the stub has used when it reads what is left: the instruction itself. */
const GAS_BEFORE_READING = 2n

/** Reads the gas that it was given, and reverts with its lowest four bytes. */
const REPORT = ['5a', '60e0', '1b', '5f', '52', '6004', '5f', 'fd']
/** The same, after it has used nearly all of it in a loop. */
const BURN_AND_REPORT = [
  '5a', // the gas at the start stays on the stack
  '5b', // loop:
  '61012c5a11', // gas left > 300
  '600157', // jump to loop
  ...REPORT.slice(1),
]

/**
 * Replaces the devnet's proxy by code that reports how much gas it was given as the reason of its failure. `burns`: it
 * uses nearly all of it.
 */
export function stubProxy(rpcUrl: string, { burns }: { burns: boolean }): Promise<void> {
  return placeProxy(rpcUrl, burns ? BURN_AND_REPORT : REPORT)
}

/** Replaces the devnet's proxy by code that ends at once with so many bytes: it reverts with them or returns them. */
export function stubProxyWithBytes(rpcUrl: string, bytes: number, end: 'revert' | 'return'): Promise<void> {
  return placeProxy(rpcUrl, [`62${bytes.toString(16).padStart(6, '0')}`, '5f', end === 'revert' ? 'fd' : 'f3'])
}

/** Returns what the memory of so many bytes costs. */
export function memoryGas(bytes: number): bigint {
  const words = BigInt(bytes + 31) / 32n
  return 3n * words + words ** 2n / 512n
}

async function placeProxy(rpcUrl: string, instructions: readonly string[]): Promise<void> {
  const code = concatHex(instructions.map((bytes): Hex => `0x${bytes}`))
  await callRpc(rpcUrl, 'anvil_setCode', [DEVNET_ADDRESSES.uptoProxy, code])
}

/** What the contract reports of a payment that was given exactly this much. */
export const reasonOfGas = (gas: bigint): Hex => toHex(gas - GAS_BEFORE_READING, { size: 4 })
