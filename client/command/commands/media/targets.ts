import { accessSync, constants, existsSync, statSync } from 'node:fs'
import { basename, dirname, extname, join } from 'node:path'
import type { Io } from '../../io.ts'
import { UsageError } from '../../usage-error.ts'
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
