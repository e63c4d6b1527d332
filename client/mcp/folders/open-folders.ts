import { createHash } from 'node:crypto'
import { lstat, realpath, rm, stat, writeFile } from 'node:fs/promises'
import { basename, dirname, resolve } from 'node:path'
import pLimit from 'p-limit'
import { whyUnwritable } from '../../batch/output/output-folders.ts'
import type { OutputFiles } from '../../batch/types.ts'
import { replaceFile, temporaryIn } from '../../files/files.ts'
import { FareboxError, type MoneyState, uncharged } from '../../wire/farebox-error.ts'
import { FetchedRecordings, type FetchLimits, type FetchOptions } from './fetch-recording.ts'
import { findAllowed } from './find-allowed.ts'
import { type AllowedFolder, isWithin, locate, locateNew, realPathOfNew } from './locate.ts'
import { OpenFolder } from './open-folder.ts'

const READ_AT_ONCE = 4

/** More than the transcripts of most recordings have. */
const PROBE_BYTES = 64 * 1024

interface FoldersOptions {
  /** What tools may read and write; none by default, so that only URLs can be transcribed. */
  readonly folders: readonly string[]
  /** Files and folders of farebox itself (home, limits, key file), which must not be in an allowed folder. */
  readonly hidden: readonly string[]
  /** Lets URLs lead to this machine and its network. */
  readonly allowsPrivateAddresses?: boolean | undefined
}

export interface MeasuredFile {
  readonly path: string
  /** Hexadecimal. */
  readonly sha256: string
}

/** The folders that tools may read recordings from and write transcripts to, as a person named them at the start. */
export type Folders = Awaited<ReturnType<typeof openFolders>>

/** Opens the folders that a person allows. Throws a `FareboxError` for one that cannot be allowed. */
export async function openFolders(options: FoldersOptions, limits?: FetchLimits) {
  const { folders, hidden, allowsPrivateAddresses = false } = options
  const allowed = await allowFolders(folders, hidden)
  const fetched = new FetchedRecordings(allowsPrivateAddresses, limits)
  return {
    /** Returns the recordings at a path. A relative one begins in an allowed folder. */
    find: (path: string) => findAllowed(allowed, path),
    /**
     * Opens a file for reading; the caller closes it. What is open is in an allowed folder, whatever its name means
     * later.
     */
    open: (path: string) => openAllowed(allowed, path),
    requireMeasured: (files: readonly MeasuredFile[], signal?: AbortSignal) => requireMeasured(allowed, files, signal),
    /** Returns the real path of a folder to write to, which may not exist yet. Throws `path_not_allowed`. */
    outputFolder: async (path: string) => (await locateNew(allowed, path)).path,
    output: guardedOutput(allowed),
    /** Fetches a recording from a URL into a private temporary file, once in a session, and returns its path. */
    fetch: (url: string, fetchOptions: FetchOptions) => fetched.fetch(url, fetchOptions),
    /** Removes what was fetched. */
    close: () => fetched.close(),
  }
}

/**
 * Resolves the folders that a person allows. Throws for one that is none, and for one that would let a tool reach the
 * files of farebox itself, such as the limits.
 */
async function allowFolders(folders: readonly string[], hidden: readonly string[]): Promise<AllowedFolder[]> {
  const own = await Promise.all(hidden.map((path) => realPathOfNew(resolve(path))))
  const allowed: AllowedFolder[] = []
  for (const folder of folders) {
    const one = await allow(folder)
    const reached = own.find((path) => isWithin(one.path, path) || isWithin(path, one.path))
    if (reached !== undefined)
      throw uncharged(
        'folder_not_allowed',
        `${folder} cannot be allowed: farebox keeps ${reached}, which no tool may read or write, in it or around it.`,
        'Allow a folder of recordings only.',
      )
    if (!allowed.some(({ path }) => path === one.path)) allowed.push(one)
  }
  return allowed
}

async function allow(folder: string): Promise<AllowedFolder> {
  const named = resolve(folder)
  try {
    const path = await realpath(named)
    if ((await stat(path)).isDirectory()) return { named, path }
  } catch (cause) {
    throw notAFolder(folder, cause)
  }
  throw notAFolder(folder)
}

function notAFolder(folder: string, cause?: unknown): FareboxError {
  return uncharged('folder_missing', `${folder} is not a folder that can be read.`, 'Name an existing folder.', cause)
}

/** Opens a regular file of an allowed folder. */
async function openAllowed(allowed: readonly AllowedFolder[], named: string) {
  const { root, names } = await locate(allowed, named)
  const name = names.at(-1)
  if (name === undefined) throw notAFile(named)
  const folder = await OpenFolder.open(root, names.slice(0, -1)).catch((cause) => throwChanged(named, cause))
  try {
    const handle = await folder.file(name).catch((cause) => throwChanged(named, cause))
    const found = await handle.stat()
    if (found.isFile()) return { handle, bytes: found.size }
    await handle.close()
    throw notAFile(named)
  } finally {
    await folder.close()
  }
}

/**
 * Throws unless the files have the content that was measured by their paths. What is sent is compared with the measured
 * content, too, so it is certainly the content of a file of an allowed folder.
 */
async function requireMeasured(
  allowed: readonly AllowedFolder[],
  files: readonly MeasuredFile[],
  signal?: AbortSignal,
): Promise<void> {
  const limit = pLimit(READ_AT_ONCE)
  await Promise.all(
    files.map(({ path, sha256 }) =>
      limit(async () => {
        signal?.throwIfAborted()
        if ((await digestOf(allowed, path, signal)) !== sha256) throw changed(path)
      }),
    ),
  )
}

async function digestOf(allowed: readonly AllowedFolder[], path: string, signal?: AbortSignal): Promise<string> {
  const { handle } = await openAllowed(allowed, path)
  const hash = createHash('sha256')
  try {
    for await (const chunk of handle.createReadStream({ autoClose: false, ...(signal && { signal }) }))
      hash.update(chunk as Buffer)
  } finally {
    await handle.close()
  }
  return hash.digest('hex')
}

function notAFile(named: string): FareboxError {
  return uncharged('not_a_file', `${named} is not a regular file.`, 'Name a regular file.')
}

/** A link was put on the path since it was resolved, or the file was removed. */
function throwChanged(named: string, cause: unknown): never {
  throw changed(named, cause)
}

function changed(named: string, cause?: unknown): FareboxError {
  const problem = `${named} cannot be read or was changed while it was looked at.`
  return uncharged(
    'file_changed',
    problem,
    'Check its permissions, and repeat the call when nothing changes it.',
    cause,
  )
}

/** Writes into allowed folders only. A link on the way is refused, also one that is put there meanwhile. */
function guardedOutput(allowed: readonly AllowedFolder[]): OutputFiles {
  return {
    requireWritable: async (paths) => {
      for (const folder of new Set(paths.map((path) => dirname(path))))
        await inFolder(allowed, folder, 'none', async (open) => {
          await probe(open)
          for (const path of paths.filter((each) => dirname(each) === folder)) await requireUsableName(open, path)
        })
    },
    write: async (path, text) =>
      await inFolder(allowed, dirname(path), 'settled', (folder) =>
        replaceFile(folder.at(basename(path)), text, { followsLinks: false }),
      ),
  }
}

/** Does something in a folder, which is created first. */
async function inFolder(
  allowed: readonly AllowedFolder[],
  path: string,
  money: MoneyState,
  use: (folder: OpenFolder) => Promise<void>,
): Promise<void> {
  let folder: OpenFolder | undefined
  try {
    const { root, names } = await locateNew(allowed, path)
    folder = await OpenFolder.open(root, names, { creates: true })
    await use(folder)
  } catch (error) {
    if (error instanceof FareboxError && error.money === money) throw error
    throw unwritable(path, error, money)
  } finally {
    await folder?.close()
  }
}

/** Writes a file and removes it: permissions alone do not show quotas, full disks and read-only mounts. */
async function probe(folder: OpenFolder): Promise<void> {
  const path = folder.at(basename(temporaryIn('.')))
  try {
    await writeFile(path, new Uint8Array(PROBE_BYTES), { flag: 'wx', mode: 0o600 })
  } finally {
    await rm(path, { force: true }).catch(() => undefined)
  }
}

async function requireUsableName(folder: OpenFolder, path: string): Promise<void> {
  const found = await lstat(folder.at(basename(path))).catch(() => null)
  if (found !== null && !found.isFile()) throw unwritable(path, new Error('it is a link or a folder'), 'none')
}

function unwritable(path: string, cause: unknown, money: MoneyState): FareboxError {
  const why = cause instanceof FareboxError ? cause.problem : whyUnwritable(cause)
  return new FareboxError({
    code: 'output_unwritable',
    problem: `${path} cannot be written (${why})`,
    money,
    advice: 'Make room or name another output_folder, then repeat the call: it pays only for what is missing.',
    cause,
  })
}
