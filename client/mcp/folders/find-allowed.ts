import { readdir, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { looksLikeRecording } from '../../batch/find/find-recordings.ts'
import type { Source } from '../../batch/types.ts'
import { uncharged } from '../../wire/farebox-error.ts'
import { type AllowedFolder, locate } from './locate.ts'
import { OpenFolder } from './open-folder.ts'

/** A plan of more would not be read by anyone. */
const MOST_RECORDINGS = 10_000

export interface FoundRecordings {
  readonly kind: 'file' | 'folder'
  /** Their paths have no links. */
  readonly sources: readonly Source[]
  /** How many entries were left out because they lead out of the allowed folders or cannot be read. */
  readonly skipped: number
}

/**
 * Finds the recordings at a path: the file, or those of a folder and its folders. Hidden files are left out, and links
 * that lead out of the allowed folders. Throws `path_not_allowed` and `file_missing`.
 */
export async function findAllowed(allowed: readonly AllowedFolder[], named: string): Promise<FoundRecordings> {
  const place = await locate(allowed, named)
  const { path } = place
  const found = await stat(path).catch(() => null)
  if (found?.isDirectory() !== true)
    return { kind: 'file', sources: [{ path, label: path, name: basename(path) }], skipped: 0 }
  const search: Search = { allowed, visited: new Set(), sources: new Map(), skipped: 0 }
  const root = await OpenFolder.open(place.root, place.names)
  try {
    await collect(search, root, '')
  } finally {
    await root.close()
  }
  return { kind: 'folder', sources: [...search.sources.values()], skipped: search.skipped }
}

interface Search {
  readonly allowed: readonly AllowedFolder[]
  /** Real paths of folders: a link may lead to one that was searched. */
  readonly visited: Set<string>
  readonly sources: Map<string, Source>
  skipped: number
}

async function collect(search: Search, folder: OpenFolder, within: string): Promise<void> {
  if (search.visited.has(folder.path)) return
  search.visited.add(folder.path)
  const entries = await readdir(folder.at('.'), { withFileTypes: true })
  entries.sort(({ name: a }, { name: b }) => (a < b ? -1 : 1))
  for (const entry of entries) {
    if (entry.name.startsWith('.')) continue
    const name = join(within, entry.name)
    if (entry.isSymbolicLink()) await collectLinked(search, join(folder.path, entry.name), name)
    else if (entry.isDirectory()) await collectFolder(search, () => folder.folder(entry.name), name)
    else if (looksLikeRecording(entry.name)) add(search, join(folder.path, entry.name), name)
  }
}

/** A folder that cannot be read, or was replaced by a link, is counted and left out. */
async function collectFolder(search: Search, open: () => Promise<OpenFolder>, name: string): Promise<void> {
  const folder = await open().catch(() => null)
  if (folder === null) {
    search.skipped += 1
    return
  }
  try {
    await collect(search, folder, name)
  } finally {
    await folder.close()
  }
}

async function collectLinked(search: Search, path: string, name: string): Promise<void> {
  const place = await locate(search.allowed, path).catch(() => null)
  if (place === null) search.skipped += 1
  else if ((await stat(place.path).catch(() => null))?.isDirectory() === true)
    await collectFolder(search, () => OpenFolder.open(place.root, place.names), name)
  else if (looksLikeRecording(place.path)) add(search, place.path, join(dirname(name), basename(place.path)))
}

function add(search: Search, path: string, name: string): void {
  if (search.sources.has(path)) return
  if (search.sources.size >= MOST_RECORDINGS)
    throw uncharged(
      'too_many_recordings',
      `The folder has more than ${MOST_RECORDINGS} recordings.`,
      'Name the folders in it one by one.',
    )
  search.sources.set(path, { path, label: path, name })
}
