import { realpath } from 'node:fs/promises'
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from 'node:path'
import { type FareboxError, uncharged } from '../../wire/farebox-error.ts'

export interface AllowedFolder {
  /** As a person named it, absolute. */
  readonly named: string
  /** Real path. */
  readonly path: string
}

/** A place in an allowed folder. */
export interface Place {
  readonly root: string
  /** The names that lead to it from the root; none for the root itself. */
  readonly names: readonly string[]
  /** Real path. */
  readonly path: string
}

/** Returns the place of a file or folder. Throws the same for what is elsewhere and for what does not exist elsewhere. */
export async function locate(allowed: readonly AllowedFolder[], named: string): Promise<Place> {
  requireUsable(named)
  let isInside = false
  for (const path of candidates(allowed, named)) {
    const real = await realpath(path).catch(() => null)
    const place = real === null ? undefined : placeOf(allowed, real)
    if (place !== undefined) return requireVisible(place, named)
    isInside ||= real === null && allowed.some((folder) => isWithin(folder.named, path) || isWithin(folder.path, path))
  }
  if (!isInside) throw notAllowed(allowed, named)
  const advice = 'Check the path; names are case-sensitive on most systems.'
  throw uncharged('file_missing', `There is no ${named}.`, advice)
}

/** Returns the place of a folder that may not exist yet. */
export async function locateNew(allowed: readonly AllowedFolder[], named: string): Promise<Place> {
  requireUsable(named)
  const paths = candidates(allowed, named)
  for (const path of paths) {
    const place = placeOf(allowed, await realpath(path).catch(() => ''))
    if (place !== undefined) return requireVisible(place, named)
  }
  for (const path of paths) {
    const place = placeOf(allowed, await realPathOfNew(path))
    if (place !== undefined) return requireVisible(place, named)
  }
  throw notAllowed(allowed, named)
}

/** Returns the allowed folder that a real path is in. */
function placeOf(allowed: readonly AllowedFolder[], path: string): Place | undefined {
  const root = allowed.find((folder) => isWithin(folder.path, path))?.path
  if (root === undefined || path === '') return undefined
  return { root, names: relative(root, path).split(sep).filter(Boolean), path }
}

export function isWithin(folder: string, path: string): boolean {
  const within = relative(folder, path)
  return within !== '..' && !within.startsWith(`..${sep}`) && !isAbsolute(within)
}

/** Resolves the links of the part of a path that exists. */
export async function realPathOfNew(path: string): Promise<string> {
  const real = await realpath(path).catch(() => null)
  if (real !== null) return real
  const parent = dirname(path)
  return parent === path ? path : join(await realPathOfNew(parent), basename(path))
}

function candidates(allowed: readonly AllowedFolder[], named: string): readonly string[] {
  return isAbsolute(named) ? [resolve(named)] : allowed.map(({ path }) => resolve(path, named))
}

function requireUsable(named: string): void {
  if (named !== '' && !named.includes('\0')) return
  throw uncharged('path_not_allowed', 'The path is empty or has a NUL in it.', 'Name a file or a folder.')
}

function requireVisible(place: Place, named: string): Place {
  if (!place.names.some((name) => name.startsWith('.'))) return place
  const problem = `${named} is hidden: a name on its path begins with a dot.`
  throw uncharged('path_not_allowed', problem, 'Name a file or a folder that is not hidden.')
}

function notAllowed(allowed: readonly AllowedFolder[], named: string): FareboxError {
  const folders = allowed.map(({ path }) => path).join(', ')
  const advice =
    folders === ''
      ? 'No folder is allowed. The person names folders of recordings where the server is started: farebox mcp FOLDER'
      : `These folders are allowed: ${folders}. The person names others where the server is started: farebox mcp FOLDER`
  return uncharged('path_not_allowed', `${named} is not in a folder that is allowed.`, advice)
}
