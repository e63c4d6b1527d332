import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { text } from 'node:stream/consumers'
import type { Abi, Hex } from 'viem'
import { replaceFile } from '../../replace-file.ts'

const require = createRequire(import.meta.url)

/** Sources next to this file, with the contract that each defines. */
const SOURCES = { 'Usdc.sol': 'Usdc', 'X402UptoPermit2Proxy.sol': 'X402UptoPermit2Proxy' } as const

const SETTINGS = {
  optimizer: { enabled: true, runs: 10_000 },
  evmVersion: 'cancun',
  // Without the metadata hash, the same source compiles to the same bytes everywhere.
  metadata: { bytecodeHash: 'none', appendCBOR: false },
  outputSelection: { '*': { '*': ['abi', 'evm.deployedBytecode.object'] } },
}

/** A compiled contract: its interface and the code that runs on chain, ready for `anvil_setCode`. */
export interface CompiledContract {
  abi: Abi
  runtimeBytecode: Hex
}

/** The stand-ins that the sandbox places at production addresses. */
export interface SandboxContracts {
  usdc: CompiledContract
  uptoProxy: CompiledContract
}

/** Compiles the sandbox's contracts, or reads them from `cacheDirectory`. */
export async function compileContracts(cacheDirectory: string): Promise<SandboxContracts> {
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
  const input = await standardInput(directory, Object.keys(files))
  const { version } = require('solc/package.json') as { version: string }
  const hash = createHash('sha256')
    .update(`${version}\n${JSON.stringify(files)}\n${input}`)
    .digest('hex')
    .slice(0, 32)
  const cacheFile = `${cacheDirectory}/contracts-${hash}.json`
  const cached = await readFile(cacheFile, 'utf8').catch(() => undefined)
  if (cached !== undefined) return JSON.parse(cached) as Record<File, CompiledContract>
  const compiled = readOutput(await runCompiler(input), files)
  // Without a writable cache, the next start repeats the work.
  await replaceFile(cacheFile, JSON.stringify(compiled)).catch(() => undefined)
  return compiled
}

async function standardInput(directory: URL, files: readonly string[]): Promise<string> {
  const sources: Record<string, { content: string }> = {}
  for (const name of files) sources[name] = { content: await readFile(new URL(name, directory), 'utf8') }
  return JSON.stringify({ language: 'Solidity', sources, settings: SETTINGS })
}

/** Runs solc in a separate process: it never frees 150 MB and installs its own handler for unhandled rejections. */
async function runCompiler(input: string): Promise<string> {
  const compiler = spawn(process.execPath, [require.resolve('solc/solc.js'), '--standard-json'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const failed = new Promise<never>((_resolve, reject) => compiler.once('error', reject))
  compiler.stdin.end(input)
  const output = await Promise.race([text(compiler.stdout), failed])
  // The command prints a warning line before the document.
  return output.slice(output.indexOf('{'))
}

interface CompilerOutput {
  errors?: { severity: string; formattedMessage: string }[]
  contracts?: Record<string, Record<string, { abi: Abi; evm: { deployedBytecode: { object: string } } }>>
}

function readOutput<File extends string>(
  output: string,
  files: Readonly<Record<File, string>>,
): Record<File, CompiledContract> {
  const { errors = [], contracts } = JSON.parse(output) as CompilerOutput
  const messages = errors.filter((error) => error.severity !== 'info').map((error) => error.formattedMessage)
  if (messages.length > 0) throw new Error(`solc: ${messages.join('\n')}`)
  const compiled = (Object.entries(files) as [File, string][]).map(([file, name]) => {
    const contract = contracts?.[file]?.[name]
    if (contract === undefined) throw new Error(`solc returned no output for ${file}`)
    return [file, { abi: contract.abi, runtimeBytecode: `0x${contract.evm.deployedBytecode.object}` }] as const
  })
  return Object.fromEntries(compiled) as Record<File, CompiledContract>
}
