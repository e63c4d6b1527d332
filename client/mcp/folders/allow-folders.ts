import { realpath, stat } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { FareboxError } from '../../wire/farebox-error.ts'
import { type AllowedFolder, isWithin, pathError, realPathOfNew } from './locate.ts'

/**
 * Resolves the folders that a person allows. Throws for one that is none, and for one that would let a tool reach the
 * files of farebox itself, such as the limits.
 */
export async function allowFolders(folders: readonly string[], hidden: readonly string[]): Promise<AllowedFolder[]> {
  const own = await Promise.all(hidden.map((path) => realPathOfNew(resolve(path))))
  const allowed: AllowedFolder[] = []
  for (const folder of folders) {
    const one = await allow(folder)
    const reached = own.find((path) => isWithin(one.path, path) || isWithin(path, one.path))
    if (reached !== undefined) throw reachesOwnFiles(folder, reached)
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
  return pathError('folder_missing', `${folder} is not a folder that can be read.`, 'Name an existing folder.', cause)
}

function reachesOwnFiles(folder: string, path: string): FareboxError {
  return pathError(
    'folder_not_allowed',
    `${folder} cannot be allowed: farebox keeps ${path}, which no tool may read or write, in it or around it.`,
    'Allow a folder of recordings only.',
  )
}
