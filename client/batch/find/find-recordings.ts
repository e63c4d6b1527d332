import { createReadStream, createWriteStream } from 'node:fs'
import { lstat, readdir, realpath, rm, stat } from 'node:fs/promises'
import { basename, join, relative, resolve } from 'node:path'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { glob, isDynamicPattern } from 'tinyglobby'
import { openTemporaryFolder } from '../../files/files.ts'
import { uncharged } from '../../wire/farebox-error.ts'
import { shellQuoted } from '../../wire/plain-text.ts'
import type { Source } from '../types.ts'

/**
 * Endings of files that are looked at in a folder. A file that is named itself is tried whatever its ending. Not `ts` and
 * `mts`: they are more often TypeScript than MPEG transport streams.
 */
const ENDINGS: ReadonlySet<string> = new Set(
  [
    'mp3 mp2 mpga mpa wav wave w64 flac alac ape wv tta tak aac m4a m4b m4p m4r mp4 m4v mov qt 3gp 3g2 f4v',
    'ogg oga ogv ogx opus spx webm weba mkv mka wma wmv asf aif aiff aifc caf au snd amr awb gsm voc',
    'ac3 eac3 dts mpc ra ram rm rmvb avi mpg mpeg vob m2ts flv dsf dff mxf',
  ]
    .join(' ')
    .split(' '),
)

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
  const isFolder = await isFolderAt(path)
  if (URL_BEGINNING.test(named) && !(await exists(path)))
    throw uncharged(
      'url_not_fetched',
      `${named} is a URL, and recordings are read from files or standard input.`,
      `Download it first (curl -LO ${shellQuoted(named)}), or pipe it: curl -L ${shellQuoted(named)} | farebox transcribe - --yes`,
    )
  if (!isFolder) return [{ path, label: named, name: basename(path) }]
  const names: string[] = []
  await collect(path, '', new Set(), names)
  return names.map((name) => ({
    path: join(path, name),
    label: join(named, name),
    name: name === '' ? basename(path) : name,
  }))
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
    throw uncharged(
      'input_unreadable',
      'The recording on standard input could not be read or kept in a temporary file.',
      'Check the program before the pipe and the space for temporary files.',
      cause,
    )
  }
}

/**
 * Collects the recordings in a folder and its folders, as paths within it, sorted. Hidden files are left out. A folder
 * that cannot be read is returned itself, so that it is reported and not passed over. Links are followed, once.
 */
async function collect(root: string, within: string, visited: Set<string>, found: string[]): Promise<void> {
  const folder = join(root, within)
  try {
    const real = await realpath(folder)
    if (visited.has(real)) return
    visited.add(real)
    const entries = await readdir(folder, { withFileTypes: true })
    entries.sort(({ name: a }, { name: b }) => (a < b ? -1 : 1))
    for (const entry of entries) {
      if (entry.name.startsWith('.')) continue
      const path = join(within, entry.name)
      const isFolder = entry.isSymbolicLink() ? await isFolderAt(join(root, path)) : entry.isDirectory()
      if (isFolder) await collect(root, path, visited, found)
      else if (looksLikeRecording(entry.name)) found.push(path)
    }
  } catch {
    found.push(within)
  }
}

async function isFolderAt(path: string): Promise<boolean> {
  // A link to nothing is reported as a file that does not exist.
  return await stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  )
}

/** Reads paths, one on each line, or separated by NUL as `find -print0` writes them. */
async function readList(list: string | Readable): Promise<string[]> {
  const content = await readText(list)
  const paths = content.includes('\0') ? content.split('\0') : content.replace(/^\ufeff/, '').split(/\r?\n/)
  return paths.filter((path) => path.trim() !== '')
}

async function readText(list: string | Readable): Promise<string> {
  try {
    return await text(typeof list === 'string' ? createReadStream(list) : list)
  } catch (cause) {
    throw uncharged(
      'list_unreadable',
      `The list of files ${typeof list === 'string' ? list : 'on standard input'} cannot be read.`,
      'Check its path and permissions.',
      cause,
    )
  }
}

/** Returns whether a name ends like that of a recording. */
export function looksLikeRecording(name: string): boolean {
  const dot = name.lastIndexOf('.')
  return dot > 0 && ENDINGS.has(name.slice(dot + 1).toLowerCase())
}
