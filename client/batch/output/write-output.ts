import { mkdir } from 'node:fs/promises'
import { dirname } from 'node:path'
import { replaceFile } from '../../files/replace-file.ts'
import { outputError } from './output-error.ts'

/** Writes a transcript that is paid for: it appears under its name only when it is complete. */
export async function writeOutput(path: string, text: string): Promise<void> {
  try {
    await replaceFile(path, text).catch(async (error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error
      // The folder was removed since it was checked.
      await mkdir(dirname(path), { recursive: true })
      await replaceFile(path, text)
    })
  } catch (error) {
    throw outputError(path, error, 'settled')
  }
}
