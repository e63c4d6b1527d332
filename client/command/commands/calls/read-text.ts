import { addAbortSignal, type Readable } from 'node:stream'
import { UsageError } from '../../exit-codes.ts'
import type { Io } from '../../io.ts'

/** Stands for standard input among the arguments. */
export const STDIN = '-'
/** Far above what any model takes: longer input is a mistake, such as a recording. */
const MAXIMUM_BYTES = 16 * 1024 * 1024

/**
 * Returns the text of the arguments: words are joined by spaces, and `-` is replaced by standard input as a paragraph of
 * its own. Without arguments it is standard input. Throws a `UsageError` when there is none.
 */
export async function readText(io: Io, words: readonly string[], signal: AbortSignal, noun: string): Promise<string> {
  if (words.length === 0 && io.stdin.isTTY === true)
    throw new UsageError(`No ${noun} was entered. Write it in quotes as an argument, or pipe it in.`)
  const given = words.length === 0 ? [STDIN] : words
  if (given.indexOf(STDIN) !== given.lastIndexOf(STDIN))
    throw new UsageError('Standard input can be read only once: write - only once.')
  const paragraphs: string[] = []
  let isOpen = false
  for (const word of given) {
    if (word === STDIN) paragraphs.push(await readStdin(io, signal))
    else if (isOpen) paragraphs.push(`${paragraphs.pop()} ${word}`)
    else paragraphs.push(word)
    isOpen = word !== STDIN
  }
  const text = paragraphs.join('\n\n')
  if (text.trim() === '') throw new UsageError(`The ${noun} is empty.`)
  return text
}

async function readStdin({ stdin }: Io, signal: AbortSignal): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  // A read that waits for a terminal or another program would not end by itself.
  for await (const chunk of addAbortSignal(signal, stdin as Readable)) {
    const read = Buffer.from(chunk as Buffer | string)
    chunks.push(read)
    bytes += read.length
    if (bytes > MAXIMUM_BYTES) throw new UsageError('Standard input is longer than 16 MiB.')
  }
  return decode(Buffer.concat(chunks)).replace(/\r?\n$/, '')
}

function decode(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw new UsageError('Standard input is not text in UTF-8.')
  }
}
