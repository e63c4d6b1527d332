import { createReadStream } from 'node:fs'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { FareboxError } from '../../wire/farebox-error.ts'

/** Reads paths, one on each line, or separated by NUL as `find -print0` writes them. */
export async function readList(list: string | Readable): Promise<string[]> {
  const content = await readText(list)
  const paths = content.includes('\0') ? content.split('\0') : content.replace(/^\ufeff/, '').split(/\r?\n/)
  return paths.filter((path) => path.trim() !== '')
}

async function readText(list: string | Readable): Promise<string> {
  try {
    return await text(typeof list === 'string' ? createReadStream(list) : list)
  } catch (cause) {
    throw new FareboxError({
      code: 'list_unreadable',
      problem: `The list of files ${typeof list === 'string' ? list : 'on standard input'} cannot be read.`,
      money: 'none',
      advice: 'Check its path and permissions.',
      cause,
    })
  }
}
