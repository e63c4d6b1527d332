import { stat } from 'node:fs/promises'

/** What tells a changed file from the one that was seen before, without reading it. */
export interface FileStamp {
  readonly path: string
  readonly bytes: number
  readonly modifiedMs: number
}

/** Returns the stamp of a file, `null` if there is none. */
export async function stampOf(path: string): Promise<FileStamp | null> {
  try {
    const { size, mtimeMs } = await stat(path)
    return { path, bytes: size, modifiedMs: mtimeMs }
  } catch {
    return null
  }
}

export function isSameStamp(one: FileStamp, other: FileStamp): boolean {
  return one.path === other.path && one.bytes === other.bytes && one.modifiedMs === other.modifiedMs
}
