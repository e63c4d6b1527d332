import { spawn } from 'node:child_process'
import { createRequire } from 'node:module'
import { text } from 'node:stream/consumers'
import type { Abi } from 'viem'

const require = createRequire(import.meta.url)

/** The version of solc in the lockfile, such as `0.8.37`. */
export const { version: COMPILER_VERSION } = require('solc/package.json') as { version: string }

/** Every contract is compiled with these. */
export const COMPILER_SETTINGS = {
  optimizer: { enabled: true, runs: 10_000 },
  evmVersion: 'cancun',
  // Without the metadata hash, the same source compiles to the same bytes everywhere.
  metadata: { bytecodeHash: 'none', appendCBOR: false },
} as const

/** The output of solc for one contract: codes are hexadecimal without `0x`. */
export interface CompilerResult {
  readonly abi: Abi
  readonly evm: {
    readonly bytecode: { readonly object: string }
    readonly deployedBytecode: { readonly object: string }
  }
}

interface CompilerOutput {
  readonly errors?: readonly { readonly severity: string; readonly formattedMessage: string }[]
  readonly contracts?: Readonly<Record<string, Readonly<Record<string, CompilerResult>>>>
}

/** Returns the document that solc reads (`--standard-json`) for sources by their file names. */
export function compilerInput(sources: Readonly<Record<string, string>>): string {
  return JSON.stringify({
    language: 'Solidity',
    sources: Object.fromEntries(Object.entries(sources).map(([name, content]) => [name, { content }])),
    settings: {
      ...COMPILER_SETTINGS,
      outputSelection: { '*': { '*': ['abi', 'evm.bytecode.object', 'evm.deployedBytecode.object'] } },
    },
  })
}

/**
 * Compiles one document and returns a function that finds a contract in the result. solc runs in a separate process: it
 * never frees 150 MB and installs its own handler for unhandled rejections.
 *
 * @throws Error with the compiler's messages when a source does not compile, or compiles with a warning.
 */
export async function runCompiler(input: string): Promise<(file: string, contract: string) => CompilerResult> {
  const compiler = spawn(process.execPath, [require.resolve('solc/solc.js'), '--standard-json'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const failed = new Promise<never>((_resolve, reject) => compiler.once('error', reject))
  compiler.stdin.end(input)
  const output = await Promise.race([text(compiler.stdout), failed])
  // The command prints a warning line before the document.
  const { errors = [], contracts } = JSON.parse(output.slice(output.indexOf('{'))) as CompilerOutput
  const messages = errors.filter((error) => error.severity !== 'info').map((error) => error.formattedMessage)
  if (messages.length > 0) throw new Error(`solc: ${messages.join('\n')}`)
  return (file, contract) => {
    const result = contracts?.[file]?.[contract]
    if (result === undefined) throw new Error(`solc returned no output for ${file}`)
    return result
  }
}
