import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { Abi, Hex } from 'viem'
import { COMPILER_VERSION, compilerInput, runCompiler } from '../../../contracts/run-compiler.ts'
import { replaceFile } from '../../replace-file.ts'

/** Sources next to this file, with the contract that each defines. */
const SOURCES = { 'Usdc.sol': 'Usdc', 'X402UptoPermit2Proxy.sol': 'X402UptoPermit2Proxy' } as const

/** A compiled contract: its interface and the code that runs on chain, ready for `anvil_setCode`. */
export interface CompiledContract {
  abi: Abi
  runtimeBytecode: Hex
}

/** The stand-ins that the sandbox places at production addresses. */
export type SandboxContracts = Awaited<ReturnType<typeof compileContracts>>

/** Compiles the sandbox's contracts, or reads them from `cacheDirectory`. */
export async function compileContracts(cacheDirectory: string) {
  const compiled = await compileSources(new URL('.', import.meta.url), SOURCES, cacheDirectory)
  return { usdc: compiled['Usdc.sol'], uptoProxy: compiled['X402UptoPermit2Proxy.sol'] }
}

/**
 * Compiles the files of a directory, each with the contract that it defines, or reads them from `cacheDirectory` when
 * sources, settings and compiler are the same.
 *
 * @throws Error with the compiler's messages when a source does not compile.
 */
export async function compileSources<File extends string>(
  directory: URL,
  files: Readonly<Record<File, string>>,
  cacheDirectory: string,
): Promise<Record<File, CompiledContract>> {
  const input = compilerInput(await readSources(directory, Object.keys(files)))
  const hash = createHash('sha256')
    .update(`${COMPILER_VERSION}\n${JSON.stringify(files)}\n${input}`)
    .digest('hex')
    .slice(0, 32)
  const cacheFile = `${cacheDirectory}/contracts-${hash}.json`
  const cached = await readFile(cacheFile, 'utf8').catch(() => undefined)
  if (cached !== undefined) return JSON.parse(cached) as Record<File, CompiledContract>
  const find = await runCompiler(input)
  const compiled = Object.fromEntries(
    (Object.entries(files) as [File, string][]).map(([file, name]) => {
      const { abi, evm } = find(file, name)
      return [file, { abi, runtimeBytecode: `0x${evm.deployedBytecode.object}` }]
    }),
  ) as Record<File, CompiledContract>
  // Without a writable cache, the next start repeats the work.
  await replaceFile(cacheFile, JSON.stringify(compiled)).catch(() => undefined)
  return compiled
}

async function readSources(directory: URL, files: readonly string[]): Promise<Record<string, string>> {
  const contents = files.map(async (name) => [name, await readFile(new URL(name, directory), 'utf8')] as const)
  return Object.fromEntries(await Promise.all(contents))
}
