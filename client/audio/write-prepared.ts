import { randomUUID } from 'node:crypto'
import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { writeError } from './audio-error.ts'

/**
 * Creates a file that appears under its name only when it is complete: `write` receives a name next to it. What it leaves
 * behind when it fails is removed.
 */
export async function createPrepared(path: string, write: (temporaryPath: string) => Promise<void>): Promise<void> {
  const temporaryPath = `${path}.${randomUUID()}.part`
  try {
    await reported(path, mkdir(dirname(path), { recursive: true }))
    await write(temporaryPath)
    await reported(path, rename(temporaryPath, path))
  } catch (error) {
    // The error of the write is the one to report.
    await rm(temporaryPath, { force: true }).catch(() => undefined)
    throw error
  }
}

/** Writes a file that appears under its name only when it is complete. */
export async function writePrepared(path: string, content: Uint8Array): Promise<void> {
  await createPrepared(path, (temporaryPath) => reported(path, writeFile(temporaryPath, content)))
}

async function reported(path: string, written: Promise<unknown>): Promise<void> {
  try {
    await written
  } catch (error) {
    throw writeError(path, error)
  }
}
