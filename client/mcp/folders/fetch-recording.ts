import { createWriteStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { extname, join } from 'node:path'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { openTemporaryFolder } from '../../files/files.ts'
import { FareboxError, uncharged } from '../../wire/farebox-error.ts'
import { failed, requestUrl } from './request-url.ts'

export interface FetchOptions {
  readonly signal: AbortSignal
  readonly onProgress?: ((bytes: number) => void) | undefined
}

export interface FetchLimits {
  readonly maximumBytes: number
  /** Of a whole download. */
  readonly maximumMs: number
  /** Of all that is kept for the session. */
  readonly maximumKeptBytes: number
}

const GIB = 1024 ** 3
const DEFAULT_LIMITS: FetchLimits = { maximumBytes: GIB, maximumMs: 15 * 60_000, maximumKeptBytes: 4 * GIB }

/** The recordings that were fetched in this session, each once: the same URL is the same recording. */
export class FetchedRecordings {
  readonly #allowsPrivateAddresses: boolean
  readonly #limits: FetchLimits
  readonly #byUrl = new Map<string, Promise<string>>()
  #folder: Promise<string> | undefined
  #kept = 0
  #count = 0

  constructor(allowsPrivateAddresses: boolean, limits: FetchLimits = DEFAULT_LIMITS) {
    this.#allowsPrivateAddresses = allowsPrivateAddresses
    this.#limits = limits
  }

  /** Returns the path of the file, which is removed when the session ends. */
  async fetch(url: string, options: FetchOptions): Promise<string> {
    const known = this.#byUrl.get(url)
    if (known !== undefined) return await known.catch(() => this.fetch(url, options))
    const fetching = this.#fetch(url, options)
    this.#byUrl.set(url, fetching)
    try {
      return await fetching
    } catch (error) {
      this.#byUrl.delete(url)
      throw error
    }
  }

  async close(): Promise<void> {
    const folder = await this.#folder?.catch(() => undefined)
    if (folder !== undefined) await rm(folder, { recursive: true, force: true })
  }

  async #fetch(url: string, { signal, onProgress }: FetchOptions): Promise<string> {
    this.#folder ??= openTemporaryFolder('fetched')
    this.#count += 1
    // Others may begin while the folder is opened.
    const name = `${this.#count}${endingOf(url)}`
    const path = join(await this.#folder, name)
    const timeout = AbortSignal.timeout(this.#limits.maximumMs)
    try {
      const both = AbortSignal.any([signal, timeout])
      const answer = await requestUrl(url, { signal: both, allowsPrivateAddresses: this.#allowsPrivateAddresses })
      await this.#save(answer, path, { signal: both, onProgress })
      return path
    } catch (error) {
      await rm(path, { force: true })
      signal.throwIfAborted()
      if (error instanceof FareboxError) throw error
      if (timeout.aborted) throw failed(`The URL was not fetched within ${this.#limits.maximumMs / 1000} s.`)
      throw failed('The URL could not be fetched to its end.', error)
    }
  }

  async #save(answer: IncomingMessage, path: string, { signal, onProgress }: FetchOptions): Promise<void> {
    const { maximumBytes, maximumKeptBytes } = this.#limits
    const limit = Math.min(maximumBytes, maximumKeptBytes - this.#kept)
    if (Number(answer.headers['content-length']) > limit) {
      answer.destroy()
      throw tooLarge(limit)
    }
    let bytes = 0
    const counting = new Transform({
      transform: (chunk: Buffer, _encoding, done) => {
        bytes += chunk.length
        // Counted as it arrives: others may be fetched at the same time.
        this.#kept += chunk.length
        onProgress?.(bytes)
        if (bytes > limit || this.#kept > maximumKeptBytes) done(tooLarge(limit))
        else done(null, chunk)
      },
    })
    try {
      await pipeline(answer, counting, createWriteStream(path, { flags: 'wx', mode: 0o600 }), { signal })
    } catch (error) {
      this.#kept -= bytes
      throw error
    }
  }
}

function tooLarge(limit: number): FareboxError {
  const advice = 'Download it into an allowed folder and name its path.'
  return uncharged('recording_too_large', `What the URL leads to is larger than ${limit} bytes.`, advice)
}

/** ffmpeg takes the ending into account. */
function endingOf(url: string): string {
  const ending = URL.canParse(url) ? extname(new URL(url).pathname) : ''
  return /^\.[a-z0-9]{1,8}$/i.test(ending) ? ending.toLowerCase() : ''
}
