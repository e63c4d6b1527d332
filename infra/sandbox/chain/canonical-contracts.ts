import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import type { Hex } from 'viem'
import { replaceFile } from '../replace-file.ts'
import { startAnvil } from './anvil.ts'
import { callRpc } from './json-rpc.ts'

/** Both contracts have the same address on every chain. */
export const PERMIT2_ADDRESS = '0x000000000022D473030F116dDEE9F6B43aC78BA3'
export const MULTICALL3_ADDRESS = '0xcA11bde05977b3631167028862bE2a173976CA11'

/** The running code of contracts that exist at one address on every chain. */
export interface CanonicalContracts {
  permit2: Hex
  multicall3: Hex
}

/**
 * Returns the code of Permit2 and Multicall3 from `cacheDirectory`, or else from a short-lived anvil.
 *
 * Anvil's Tempo network has both at their canonical addresses, so no chain has to be reached and no source is needed. The
 * code works on any chain: Permit2 recomputes its domain separator when the chain id differs from that of its deployment.
 */
export async function readCanonicalContracts(cacheDirectory: string): Promise<CanonicalContracts> {
  const { version } = createRequire(import.meta.url)('@foundry-rs/anvil/package.json') as { version: string }
  const cacheFile = `${cacheDirectory}/canonical-contracts-anvil-${version}.json`
  const cached = await readFile(cacheFile, 'utf8').catch(() => undefined)
  if (cached !== undefined) return JSON.parse(cached) as CanonicalContracts
  const contracts = await readFromTempo()
  // Without a writable cache, the next start repeats the work.
  await replaceFile(cacheFile, JSON.stringify(contracts)).catch(() => undefined)
  return contracts
}

async function readFromTempo(): Promise<CanonicalContracts> {
  const tempo = await startAnvil({ args: ['--network', 'tempo'] })
  try {
    const [permit2, multicall3] = await Promise.all([
      readCode(tempo.rpcUrl, PERMIT2_ADDRESS),
      readCode(tempo.rpcUrl, MULTICALL3_ADDRESS),
    ])
    return { permit2, multicall3 }
  } finally {
    await tempo.stop()
  }
}

async function readCode(rpcUrl: string, address: string): Promise<Hex> {
  const code = await callRpc<Hex>(rpcUrl, 'eth_getCode', [address, 'latest'])
  if (code === '0x') throw new Error(`This version of anvil has no code at ${address} on its Tempo network`)
  return code
}
