import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
/** Compiling all code takes half of the processor time of a short command. */
export const COMPILE_CACHE = join(ROOT, 'node_modules/.cache/farebox-compiled')

/** Exit code and output of a command. */
export interface CommandRun {
  readonly exitCode: number | null
  readonly output: string
  readonly errors: string
}

/**
 * Runs one of the repository's commands (a relative path) to its end. Of this process's environment it gets only PATH.
 */
export async function runCommand(
  entry: string,
  programArguments: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<CommandRun> {
  const child = spawn(process.execPath, [join(ROOT, entry), ...programArguments], {
    env: { PATH: process.env['PATH'] ?? '', NODE_COMPILE_CACHE: COMPILE_CACHE, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const [output, errors]: [string[], string[]] = [[], []]
  child.stdout.setEncoding('utf8').on('data', (text: string) => output.push(text))
  child.stderr.setEncoding('utf8').on('data', (text: string) => errors.push(text))
  const exitCode = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
  return { exitCode, output: output.join(''), errors: errors.join('') }
}

/** Runs a program to its end and returns its standard output. Throws with what it wrote when it fails. */
export async function runProgram(program: string, programArguments: readonly string[]): Promise<Buffer> {
  const child = spawn(program, programArguments, { stdio: ['ignore', 'pipe', 'pipe'] })
  const output: Buffer[] = []
  const errors: Buffer[] = []
  child.stdout.on('data', (chunk: Buffer) => output.push(chunk))
  child.stderr.on('data', (chunk: Buffer) => errors.push(chunk))
  const exitCode = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
  if (exitCode === 0) return Buffer.concat(output)
  const said = Buffer.concat([...output, ...errors]).toString()
  throw new Error(`${program} ${programArguments.join(' ')}: exit ${exitCode}: ${said}`)
}
