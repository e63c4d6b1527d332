import { spawn } from 'node:child_process'

/** Runs a program to its end and returns its standard output; throws with its standard error when it fails. */
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
  throw new Error(`${program} ${programArguments.join(' ')}: exit ${exitCode}: ${Buffer.concat(errors).toString()}`)
}
