import { accessSync, constants, existsSync, statSync } from 'node:fs'
import { basename, dirname, extname, join } from 'node:path'
import { replaceFile } from '../../../files/files.ts'
import { downloadMedia, formatOf, type HostedMedia } from '../../../media/download.ts'
import { FareboxError } from '../../../wire/farebox-error.ts'
import { UsageError } from '../../exit-codes.ts'
import type { Io } from '../../io.ts'
import type { Output } from '../../output/output.ts'
import type { CommandContext } from '../../run.ts'
import { noteWait } from '../calls/notes.ts'
import { STDIN } from '../calls/read-text.ts'

/** Standard output in place of a file. */
export const STDOUT = STDIN

interface TargetOptions {
  /** A file, a folder, `-`, or undefined for a name made of the text. */
  readonly out: string | undefined
  readonly count: number
  /** With the dot. */
  readonly ending: string
  readonly text: string
  readonly force: boolean
}

const LONGEST_NAME = 40

/** Downloads the result of a call that is paid for and writes it. `key` is that of the call. Returns the content. */
export async function saveMedia(
  { signal, output }: Pick<CommandContext, 'signal' | 'output'>,
  target: string,
  media: HostedMedia,
  key: string,
): Promise<Uint8Array> {
  const bytes = await downloadMedia(media, { signal, onWait: noteWait(output), advice: adviceFor(key) })
  await writeMedia(output, target, bytes, key)
  return bytes
}

/** Writes a result that is paid for, completely or not at all. */
export async function writeMedia(output: Output, target: string, bytes: Uint8Array, key: string): Promise<void> {
  if (target === STDOUT) {
    await output.content(bytes)
    return
  }
  try {
    await replaceFile(target, bytes)
  } catch (cause) {
    throw new FareboxError({
      code: 'output_unwritable',
      problem: `${target} could not be written (${cause instanceof Error ? cause.message : String(cause)}).`,
      money: 'settled',
      advice: adviceFor(key),
      cause,
    })
  }
  const format = formatOf(bytes)
  if (format !== undefined && !(format.endings as readonly string[]).includes(extname(target).toLowerCase()))
    output.warn(`${target} contains ${format.name}; its usual ending is ${format.endings[0]}`)
}

/**
 * Returns the files to write, or standard output. Throws a `UsageError` when one cannot be written: it must be known
 * before anything is paid.
 */
export function planTargets(io: Io, { out, count, ending, text, force }: TargetOptions): readonly string[] {
  if (out === STDOUT) return [requireBinaryStdout(io, count)]
  const isFolder = out !== undefined && (/[/\\]$/.test(out) || isDirectory(out))
  const isNamed = out !== undefined && !isFolder
  const first = isNamed ? out : join(out ?? '.', `${nameOf(text)}${ending}`)
  requireFolder(dirname(first))
  const numbered = count === 1 ? [first] : Array.from({ length: count }, (_, index) => withNumber(first, index + 1))
  if (force) return numbered.map(requireFile)
  if (isNamed) return numbered.map(requireAbsent)
  return freeNames(numbered)
}

function requireBinaryStdout({ stdout }: Io, count: number): string {
  if (count > 1) throw new UsageError('Standard output takes one file only: name a file with --out.')
  if (stdout.isTTY === true)
    throw new UsageError('A terminal cannot show this: name a file with --out, or pipe the output.')
  return STDOUT
}

function requireFolder(folder: string): void {
  if (!existsSync(folder)) throw new UsageError(`There is no folder ${folder}. Create it, or name another with --out.`)
  if (!isDirectory(folder)) throw new UsageError(`${folder} is not a folder. Name another with --out.`)
  try {
    accessSync(folder, constants.W_OK)
  } catch {
    throw new UsageError(`The folder ${folder} is not writable. Name another with --out.`)
  }
}

function requireAbsent(path: string): string {
  if (existsSync(path))
    throw new UsageError(`${path} exists. Name another file with --out, or replace it with --force.`)
  return path
}

function requireFile(path: string): string {
  if (existsSync(path) && !statSync(path).isFile())
    throw new UsageError(`${path} is not a regular file. Name another with --out.`)
  return path
}

/** Names that were not chosen by the user move out of the way of files that exist. */
function freeNames(paths: readonly string[]): readonly string[] {
  for (let attempt = 1; ; attempt += 1) {
    const names = attempt === 1 ? paths : paths.map((path) => withNumber(path, attempt))
    if (!names.some(existsSync)) return names
  }
}

function withNumber(path: string, number: number): string {
  const ending = extname(path)
  return join(dirname(path), `${basename(path, ending)}-${number}${ending}`)
}

/** Returns the first words of a text as a file name. */
function nameOf(text: string): string {
  const words =
    text
      .normalize('NFC')
      .toLowerCase()
      .match(/[\p{L}\p{M}\p{N}]+/gu) ?? []
  const name = words.reduce((before, word) => {
    const longer = before === '' ? word : `${before}-${word}`
    return Array.from(longer).length <= LONGEST_NAME ? longer : before
  }, '')
  return name === '' ? 'farebox' : name
}

function isDirectory(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false
}

/** Returns what to do about a result that was paid for and got lost on this machine. */
export function adviceFor(key: string): string {
  return `Run the command again within a day, or with --request-id ${key}: it gets the same result without a charge.`
}
