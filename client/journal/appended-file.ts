import { closeSync, fdatasync, fsyncSync, openSync, writeSync } from 'node:fs'
import { dirname } from 'node:path'
import { promisify } from 'node:util'
import { type FareboxError, uncharged } from '../wire/farebox-error.ts'

const syncData = promisify(fdatasync)

/** A file that lines are appended to. Concurrent calls of `flush` share one `fdatasync`. */
export class AppendedFile {
  readonly #path: string
  readonly #descriptor: number
  /** Whether the end of the file is a line that could only be written in part. */
  #isTorn = false
  #unsynced = false
  #running: Promise<void> = Promise.resolve()
  #next: Promise<void> | null = null

  constructor(path: string) {
    this.#path = path
    try {
      this.#descriptor = openSync(path, 'ax', 0o600)
      syncDirectory(dirname(path))
    } catch (error) {
      throw unwritable(path, error)
    }
  }

  append(lines: string): void {
    const bytes = Buffer.from(this.#isTorn ? `\n${lines}` : lines)
    try {
      const written = writeSync(this.#descriptor, bytes)
      this.#isTorn = written < bytes.length
      this.#unsynced = true
    } catch (error) {
      throw unwritable(this.#path, error)
    }
    if (this.#isTorn) throw unwritable(this.#path, new Error('only a part could be written'))
  }

  flush(): Promise<void> {
    if (this.#next !== null) return this.#next
    if (!this.#unsynced) return this.#running
    this.#next = this.#syncAfter(this.#running)
    return this.#next
  }

  /** Lines that are appended while the file is synchronized need another turn, which all of their callers share. */
  async #syncAfter(running: Promise<void>): Promise<void> {
    await running.catch(() => undefined)
    this.#running = this.#sync()
    this.#next = null
    await this.#running
  }

  async #sync(): Promise<void> {
    this.#unsynced = false
    try {
      await syncData(this.#descriptor)
    } catch (error) {
      this.#unsynced = true
      throw unwritable(this.#path, error)
    }
  }

  async close(): Promise<void> {
    await this.flush()
    closeSync(this.#descriptor)
  }
}

/** Makes the file's name durable, where directories can be synchronized. */
export function syncDirectory(directory: string): void {
  if (process.platform === 'win32') return
  const descriptor = openSync(directory, 'r')
  try {
    fsyncSync(descriptor)
  } finally {
    closeSync(descriptor)
  }
}

/** Thrown before anything is signed: a payment that cannot be written down must not be made. */
export function unwritable(path: string, cause: unknown): FareboxError {
  return uncharged(
    'journal_unwritable',
    `The journal ${path} cannot be written (${cause instanceof Error ? cause.message : String(cause)}).`,
    'Free disk space or set FAREBOX_HOME to a writable directory, then repeat the call.',
    cause,
  )
}
