import { randomUUID } from 'node:crypto'
import { mkdirSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { syncDirectory, unwritable } from '../../../journal/appended-file.ts'
import { isOfThisHost, isRunning, newWriterName } from '../../../journal/file-names.ts'

const DIRECTORY = 'undelivered'
const HOUR_MS = 3_600_000
/** A result is kept for at least a day. */
const RESUMABLE_MS = 24 * HOUR_MS
/** No call takes as long; where its process cannot be seen, it is over by then. */
const LONGEST_CALL_MS = HOUR_MS
const FORGOTTEN_MS = 7 * RESUMABLE_MS

/**
 * Remembers the calls of commands until their results are written. A command that was killed at any moment, or that could
 * not write what it paid for, is repeated under its key by the next equal one: the same result, charged once.
 */
export class Undelivered {
  readonly #directory: string
  readonly #writer: string
  readonly #own = new Set<string>()
  readonly #now: () => number

  constructor(home: string, now: () => number = Date.now) {
    this.#directory = join(home, DIRECTORY)
    this.#writer = newWriterName(now())
    this.#now = now
  }

  /**
   * Takes up a call with this identity, or begins one; its `end` lets the next equal command make another one. Throws
   * `FareboxError` when it cannot be written down.
   */
  begin(identity: string): { readonly key: string; readonly end: () => void } {
    try {
      mkdirSync(this.#directory, { recursive: true, mode: 0o700 })
      const key = this.#takeUp(identity) ?? randomUUID()
      this.#own.add(key)
      const path = join(this.#directory, this.#nameOf(identity, key))
      writeFileSync(path, '', { mode: 0o600, flag: 'a', flush: true })
      syncDirectory(this.#directory)
      return { key, end: () => rmSync(path, { force: true }) }
    } catch (error) {
      throw unwritable(this.#directory, error)
    }
  }

  #takeUp(identity: string): string | undefined {
    for (const name of readdirSync(this.#directory).sort()) {
      const [found = '', key = '', writer = ''] = name.split('.')
      const ageMs = this.#ageOf(name)
      if (ageMs > FORGOTTEN_MS) rmSync(join(this.#directory, name), { force: true })
      if (found !== identity || this.#own.has(key) || ageMs > RESUMABLE_MS) continue
      const isUnderWay = isOfThisHost(writer) ? isRunning(writer) : ageMs < LONGEST_CALL_MS
      if (!isUnderWay && this.#rename(name, this.#nameOf(identity, key))) return key
    }
    return undefined
  }

  #nameOf(identity: string, key: string): string {
    return `${identity}.${key}.${this.#writer}`
  }

  #ageOf(name: string): number {
    const { mtimeMs } = statSync(join(this.#directory, name), { throwIfNoEntry: false }) ?? { mtimeMs: 0 }
    return this.#now() - mtimeMs
  }

  /** Returns false when another process was first. */
  #rename(from: string, to: string): boolean {
    try {
      renameSync(join(this.#directory, from), join(this.#directory, to))
      return true
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false
      throw error
    }
  }
}
