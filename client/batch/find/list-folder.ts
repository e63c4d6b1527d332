import { readdir, realpath, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { looksLikeRecording } from './audio-endings.ts'

/**
 * Returns the recordings in a folder and its folders, as paths within it, sorted. Hidden files are left out. A folder
 * that cannot be read is returned itself, so that it is reported and not passed over. Links are followed, once.
 */
export async function listFolder(folder: string): Promise<string[]> {
  const found: string[] = []
  await collect(folder, '', new Set(), found)
  return found
}

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
