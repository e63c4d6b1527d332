import { resolve } from 'node:path'

/** Files that arrive together are one batch. */
const GATHERING_MS = 500

/** Collects the files that arrived since the last batch. */
export class ArrivedFiles {
  #paths = new Set<string>()
  #wake: (() => void) | undefined

  add(path: string): void {
    this.#paths.add(resolve(path))
    this.#wake?.()
  }

  addAll(paths: Iterable<string>): void {
    for (const path of paths) this.add(path)
  }

  /** Waits for files and returns them all; none when the signal is aborted. */
  async next(signal: AbortSignal): Promise<ReadonlySet<string>> {
    if (this.#paths.size === 0) await this.#someOrAborted(signal)
    if (!signal.aborted) await new Promise((done) => setTimeout(done, GATHERING_MS))
    const paths = this.#paths
    this.#paths = new Set()
    return paths
  }

  #someOrAborted(signal: AbortSignal): Promise<void> {
    return new Promise((done) => {
      if (signal.aborted) return done()
      const finish = () => {
        signal.removeEventListener('abort', finish)
        this.#wake = undefined
        done()
      }
      this.#wake = finish
      signal.addEventListener('abort', finish)
    })
  }
}
