import { randomUUID } from 'node:crypto'
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { ObjectStore } from '#shared/media/object-store.ts'

/** Our own keys look like `staged/0f3c…`; anything that could leave the folder is refused. */
const SAFE_KEY = /^[a-z]+\/[A-Za-z0-9-]+$/

/** Objects as files below `directory`. A file appears under its name only when it is whole. */
export function createDiskObjectStore(directory: string): ObjectStore {
  const pathOf = (key: string) => {
    if (!SAFE_KEY.test(key)) throw new RangeError('not an object key')
    return join(directory, key)
  }
  return {
    put: async (key, bytes) => {
      const path = pathOf(key)
      const partial = `${path}.${randomUUID()}.partial`
      await mkdir(dirname(path), { recursive: true })
      await writeFile(partial, bytes, { mode: 0o600 })
      await rename(partial, path)
    },
    get: async (key) => {
      try {
        return await readFile(pathOf(key))
      } catch (error) {
        if (isMissing(error)) return null
        throw error
      }
    },
    delete: async (key) => await rm(pathOf(key), { force: true }),
    deleteOlderThan: async (prefix, ageMs) => await deleteOlderThan(join(directory, prefix), ageMs),
  }
}

async function deleteOlderThan(folder: string, ageMs: number): Promise<number> {
  const oldest = Date.now() - ageMs
  let deleted = 0
  for (const name of await namesIn(folder)) {
    const path = join(folder, name)
    try {
      if ((await stat(path)).mtimeMs >= oldest) continue
      await rm(path, { force: true })
      deleted += 1
    } catch (error) {
      // Another worker's sweeper was faster.
      if (!isMissing(error)) throw error
    }
  }
  return deleted
}

async function namesIn(folder: string): Promise<readonly string[]> {
  try {
    return await readdir(folder)
  } catch (error) {
    if (isMissing(error)) return []
    throw error
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT'
}
