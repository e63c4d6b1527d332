import { createWriteStream } from 'node:fs'
import { lstat, rm, stat } from 'node:fs/promises'
import { basename, join, relative, resolve } from 'node:path'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { glob, isDynamicPattern } from 'tinyglobby'
import { openTemporaryFolder } from '../../files/temporary-file.ts'
import { FareboxError } from '../../wire/farebox-error.ts'
import type { Source } from '../types.ts'
import { looksLikeRecording } from './audio-endings.ts'
import { listFolder } from './list-folder.ts'
import { readList } from './read-list.ts'

const URL_BEGINNING = /^[a-z][a-z0-9+.-]+:\/\//i

export interface FindOptions {
  /** A file with one path on each line, or a stream of them. */
  readonly filesFrom?: string | Readable | undefined
  /** Receives the bytes of one recording for the path `-`. */
  readonly stdin?: Readable | undefined
  /** Where relative paths begin; the working directory by default. */
  readonly cwd?: string | undefined
}

/**
 * Finds recordings: files, folders with all that is in them, and globs, in the order in which they are named, each once.
 * A path that does not exist is returned, so that it fails alone.
 */
export async function findRecordings(paths: readonly string[], options: FindOptions = {}): Promise<Source[]> {
  const { filesFrom, stdin, cwd = process.cwd() } = options
  const found = new Map<string, Source>()
  const add = (source: Source) => {
    if (!found.has(source.path)) found.set(source.path, source)
  }
  for (const path of paths) for (const source of await findNamed(path, cwd, stdin)) add(source)
  if (filesFrom !== undefined)
    for (const path of await readList(filesFrom)) for (const source of await findExisting(path, cwd)) add(source)
  return [...found.values()]
}

async function findNamed(path: string, cwd: string, stdin: Readable | undefined): Promise<Source[]> {
  if (path === '-' && stdin !== undefined) return [await copyOfInput(stdin)]
  // A file may have brackets in its name, and a URL has question marks.
  const isLiteral = URL_BEGINNING.test(path) || !isDynamicPattern(path) || (await exists(resolve(cwd, path)))
  return isLiteral ? await findExisting(path, cwd) : await findMatching(path, cwd)
}

/** Returns a file, or what is in a folder. */
async function findExisting(named: string, cwd: string): Promise<Source[]> {
  const path = resolve(cwd, named)
  const isFolder = await stat(path).then(
    (entry) => entry.isDirectory(),
    () => false,
  )
  if (URL_BEGINNING.test(named) && !(await exists(path))) throw isUrl(named)
  if (!isFolder) return [{ path, label: named, name: basename(path) }]
  const names = await listFolder(path)
  return names.map((name) => ({
    path: join(path, name),
    label: join(named, name),
    name: name === '' ? basename(path) : name,
  }))
}

function isUrl(named: string): FareboxError {
  return new FareboxError({
    code: 'url_not_fetched',
    problem: `${named} is a URL, and recordings are read from files or standard input.`,
    money: 'none',
    advice: `Download it first (curl -LO ${quoted(named)}), or pipe it: curl -L ${quoted(named)} | farebox transcribe - --yes`,
  })
}

/** For a shell. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}

/** A pattern that names no ending matches transcripts, too, so only recordings are taken. */
async function findMatching(pattern: string, cwd: string): Promise<Source[]> {
  const matches = await glob(pattern, { cwd, absolute: true, expandDirectories: false, followSymbolicLinks: false })
  if (matches.length === 0) return [{ path: resolve(cwd, pattern), label: pattern, name: basename(pattern) }]
  const namesEnding = /\.[^*?/.]+$/.test(pattern)
  const wanted = namesEnding ? matches : matches.filter(looksLikeRecording)
  const base = resolve(cwd, fixedPart(pattern))
  return wanted
    .sort((a, b) => (a < b ? -1 : 1))
    .map((match) => {
      const path = resolve(match)
      return { path, label: pattern.startsWith('/') ? path : relative(cwd, path), name: relative(base, path) }
    })
}

/** Returns the folders of a pattern before its first part that matches several names. */
function fixedPart(pattern: string): string {
  const parts = pattern.split('/')
  const first = parts.findIndex((part) => isDynamicPattern(part))
  return parts.slice(0, first).join('/') || (pattern.startsWith('/') ? '/' : '.')
}

async function exists(path: string): Promise<boolean> {
  return await lstat(path).then(
    () => true,
    () => false,
  )
}

/** Recordings are read more than once, so what comes from a pipe is kept in a file. */
async function copyOfInput(stdin: Readable): Promise<Source> {
  let folder: string | undefined
  try {
    folder = await openTemporaryFolder('input')
    const path = join(folder, 'stdin')
    await pipeline(stdin, createWriteStream(path, { mode: 0o600 }))
    return { path, label: 'standard input', name: 'stdin', isTemporary: true }
  } catch (cause) {
    if (folder !== undefined) await rm(folder, { recursive: true, force: true })
    throw new FareboxError({
      code: 'input_unreadable',
      problem: 'The recording on standard input could not be read or kept in a temporary file.',
      money: 'none',
      advice: 'Check the program before the pipe and the space for temporary files.',
      cause,
    })
  }
}
