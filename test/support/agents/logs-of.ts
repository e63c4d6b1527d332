import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { SharedSandbox } from '../processes/test-sandbox.ts'

/** Returns everything that the processes of a sandbox have written. */
export async function logsOf({ directory }: Pick<SharedSandbox, 'directory'>): Promise<string> {
  const folder = join(directory, 'logs')
  const names = await readdir(folder)
  return (await Promise.all(names.map((name) => readFile(join(folder, name), 'utf8')))).join('\n')
}
