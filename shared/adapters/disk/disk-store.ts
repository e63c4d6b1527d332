import { randomUUID } from 'node:crypto'
import {
  access,
  constants,
  type FileHandle,
  mkdir,
  open,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  writeFile,
} from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { countLeft, type ObjectStore, requireObjectKey } from '#shared/media/object-store.ts'

/** Creates the folder if it is missing. Throws when files cannot be written to it. */
export async function requireFolder(directory: string): Promise<void> {
  await mkdir(directory, { recursive: true })
  await access(directory, constants.W_OK | constants.X_OK)
}

/** Stores objects as files below `directory`. A file appears under its name only once it is complete. */
export function createDiskObjectStore(directory: string): ObjectStore {
  const pathOf = (key: string) => join(directory, requireObjectKey(key))
  return {
    put: async (key, bytes) => {
      const path = pathOf(key)
      const partial = `${path}.${randomUUID()}.partial`
      await mkdir(dirname(path), { recursive: true })
      await writeFile(partial, bytes, { mode: 0o600 })
      await rename(partial, path)
    },
    get: (key) => unlessMissing(readFile(pathOf(key))),
    open: async (key, range) => {
      const file = await unlessMissing(open(pathOf(key), 'r'))
      if (!file) return null
      const bytes = await sizeOf(file)
      const [first, last] = range ?? [0, bytes - 1]
      // A file stream always reads at least one byte.
      if (bytes === 0) return await file.close().then(() => ({ bytes, body: Readable.from([]) }))
      return { bytes: last - first + 1, body: file.createReadStream({ start: first, end: last }) }
    },
    delete: async (key) => await rm(pathOf(key), { force: true }),
    deleteOlderThan: async (prefix, ageMs) => await deleteOlderThan(directory, prefix, ageMs),
  }
}

/** Returns the file's size. Closes the file when it cannot be read. */
async function sizeOf(file: FileHandle): Promise<number> {
  try {
    return (await file.stat()).size
  } catch (error) {
    await file.close()
    throw error
  }
}

async function deleteOlderThan(directory: string, prefix: string, ageMs: number): Promise<number> {
  const folder = join(directory, prefix)
  const left = countLeft(prefix)
  const oldest = Date.now() - ageMs
  let deleted = 0
  for (const name of (await unlessMissing(readdir(folder))) ?? []) {
    const path = join(folder, name)
    try {
      // Another worker's sweeper may have deleted it.
      const found = await unlessMissing(stat(path))
      if (!found?.isFile() || found.mtimeMs >= oldest) continue
      await rm(path, { force: true })
      deleted += 1
    } catch (error) {
      left.add(error)
    }
  }
  left.requireNone()
  return deleted
}

async function unlessMissing<T>(work: Promise<T>): Promise<T | null> {
  try {
    return await work
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null
    throw error
  }
}
