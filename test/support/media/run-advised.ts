import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runProgram } from '../processes/run-program.ts'

/**
 * Runs the command at the end of an error message as it stands there, in a folder with these files. Returns the files
 * that it wrote, in the order of their names.
 */
export async function runAdvised(message: string, inputs: Readonly<Record<string, Uint8Array>>): Promise<Buffer[]> {
  const [command] = /(mpg123 -q|ffmpeg -i|base64 -w0) .*$/.exec(message) ?? []
  if (command === undefined) throw new Error(`no command in: ${message}`)
  const folder = await mkdtemp(join(tmpdir(), 'farebox-advised-'))
  try {
    for (const [name, bytes] of Object.entries(inputs)) await writeFile(join(folder, name), bytes)
    const printed = await runProgram('sh', ['-c', `cd ${folder} && ${command}`])
    const written = (await readdir(folder)).filter((name) => !Object.hasOwn(inputs, name)).toSorted()
    const files = await Promise.all(written.map((name) => readFile(join(folder, name))))
    return printed.length > 0 ? [printed, ...files] : files
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
