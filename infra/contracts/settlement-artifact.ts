import { readFile } from 'node:fs/promises'
import type { Abi, Hex } from 'viem'

const FILE = new URL('SettlementContract.json', import.meta.url)

/** The built settlement contract, as `SettlementContract.json` has it. */
export interface SettlementArtifact {
  readonly contract: string
  readonly compiler: { readonly name: 'solc'; readonly version: string; readonly settings: unknown }
  readonly abi: Abi
  /** What a deployment sends, before the encoded constructor arguments. */
  readonly creationCode: Hex
  /** What runs on chain. It is the same in every deployment. */
  readonly runtimeCode: Hex
  readonly runtimeCodeHash: Hex
}

/** Reads the built contract. Needs no compiler. */
export async function readSettlementArtifact(): Promise<SettlementArtifact> {
  return JSON.parse(await readFile(FILE, 'utf8')) as SettlementArtifact
}
