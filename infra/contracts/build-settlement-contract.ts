import { readFile } from 'node:fs/promises'
import { type Hex, keccak256 } from 'viem'
import { COMPILER_SETTINGS, COMPILER_VERSION, compilerInput, runCompiler } from './run-compiler.ts'
import type { SettlementArtifact } from './settlement-artifact.ts'

const CONTRACT = 'SettlementContract'
const FILE = `${CONTRACT}.sol`

/** Compiles the settlement contract from its source. The result depends on nothing but the source and the lockfile. */
export async function buildSettlementContract(): Promise<SettlementArtifact> {
  const source = await readFile(new URL(FILE, import.meta.url), 'utf8')
  const find = await runCompiler(compilerInput({ [FILE]: source }))
  const { abi, evm } = find(FILE, CONTRACT)
  const runtimeCode: Hex = `0x${evm.deployedBytecode.object}`
  return {
    contract: CONTRACT,
    compiler: { name: 'solc', version: COMPILER_VERSION, settings: COMPILER_SETTINGS },
    abi,
    creationCode: `0x${evm.bytecode.object}`,
    runtimeCode,
    runtimeCodeHash: keccak256(runtimeCode),
  }
}
