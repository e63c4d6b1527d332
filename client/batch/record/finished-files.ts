import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { AppendedLines } from './appended-lines.ts'
import { type FileStamp, isSameStamp } from './file-state.ts'

/** A file whose transcripts were written. */
export interface FinishedFile extends FileStamp {
  /** Hexadecimal SHA-256 of its content. */
  readonly sha256: string
  /** Digest of the fields of the calls. */
  readonly request: string
  /** Digest of these and of how transcripts are written; others do not count. */
  readonly rendering: string
  readonly occurrence: number
  readonly durationMs: number
  readonly outputs: readonly string[]
  /** SHA-256 of each of the outputs as it was written. Missing in records of earlier versions. */
  readonly outputDigests?: readonly string[]
  /** Missing in records of earlier versions. */
  readonly receiptIds?: readonly string[]
}

/** A file that is transcribed another time on request; until that is finished, it is not finished. */
interface BegunAgain {
  readonly sha256: string
  readonly request: string
  readonly again: number
  /** The service no longer has the transcript, so the next one is another. */
  readonly isExpired?: boolean
}

/** What earlier runs finished. Without a home it knows this run only. */
export class FinishedFiles {
  readonly #lines: AppendedLines | null
  readonly #byPath = new Map<string, FinishedFile[]>()
  readonly #owners = new Map<string, string>()
  readonly #digests = new Map<string, string | undefined>()
  readonly #occurrences = new Map<string, number>()
  readonly #finished = new Set<string>()

  constructor(home: string | null) {
    this.#lines = home === null ? null : new AppendedLines(join(home, 'batch', 'finished.ndjson'))
    for (const line of this.#lines?.read() ?? []) {
      if (isFinished(line)) this.#remember(line)
      else if (isBegunAgain(line)) this.#begin(line)
    }
  }

  /** Returns what is known of the file as it is now, if all these outputs were written for it in one of the renderings. */
  find(stamp: FileStamp, renderings: readonly string[], outputs: readonly string[]): FinishedFile | undefined {
    for (const rendering of renderings) {
      const own = (this.#byPath.get(stamp.path) ?? []).filter(
        (file) =>
          file.rendering === rendering && isSameStamp(file, stamp) && file.occurrence >= this.occurrenceOf(file),
      )
      const written = new Set(own.flatMap((file) => file.outputs))
      if (own.length > 0 && outputs.every((output) => written.has(output))) return own.at(-1)
    }
    return undefined
  }

  /** Returns the other source that an output was written for, if that still exists. */
  ownerOf(output: string, path: string): string | undefined {
    const owner = this.#owners.get(output)
    return owner !== undefined && owner !== path && existsSync(owner) ? owner : undefined
  }

  /** Returns whether an output was written for any source. */
  isWritten(output: string): boolean {
    return this.#owners.has(output)
  }

  /** Returns the SHA-256 of what was written to an output last. */
  digestOf(output: string): string | undefined {
    return this.#digests.get(output)
  }

  /** Returns whether an output was written for this source last. */
  isOwn(output: string, path: string): boolean {
    return this.#owners.get(output) === path
  }

  /** Returns how many times the content has been transcribed for the request on demand, beyond the first. */
  occurrenceOf({ sha256, request }: Pick<FinishedFile, 'sha256' | 'request'>): number {
    return this.#occurrences.get(`${sha256} ${request}`) ?? 0
  }

  /** Returns whether the last occurrence was finished. */
  isFinished(sha256: string, request: string): boolean {
    return this.#finished.has(`${sha256} ${request} ${this.occurrenceOf({ sha256, request })}`)
  }

  /** Records that contents are transcribed another time. */
  beginAgain(begun: readonly BegunAgain[]): void {
    for (const line of begun) this.#begin(line)
    this.#lines?.append(...begun)
  }

  add(file: FinishedFile): void {
    this.#remember(file)
    this.#lines?.append(file)
  }

  #remember(file: FinishedFile): void {
    const files = this.#byPath.get(file.path)
    if (files === undefined) this.#byPath.set(file.path, [file])
    else files.push(file)
    for (const [index, output] of file.outputs.entries()) {
      this.#owners.set(output, file.path)
      this.#digests.set(output, file.outputDigests?.[index])
    }
    this.#finished.add(`${file.sha256} ${file.request} ${file.occurrence}`)
    this.#raise(file.sha256, file.request, file.occurrence)
  }

  #begin({ sha256, request, again, isExpired = false }: BegunAgain): void {
    this.#raise(sha256, request, again)
    if (isExpired) this.#finished.add(`${sha256} ${request} ${again}`)
  }

  #raise(sha256: string, request: string, occurrence: number): void {
    const name = `${sha256} ${request}`
    this.#occurrences.set(name, Math.max(occurrence, this.#occurrences.get(name) ?? 0))
  }
}

function isFinished(line: unknown): line is FinishedFile {
  const { path, sha256, request, rendering, outputs, occurrence } = line as Partial<FinishedFile>
  const areTexts = [path, sha256, request, rendering].every((value) => typeof value === 'string')
  return areTexts && typeof occurrence === 'number' && Array.isArray(outputs)
}

function isBegunAgain(line: unknown): line is BegunAgain {
  const { sha256, request, again } = line as Partial<BegunAgain>
  return typeof sha256 === 'string' && typeof request === 'string' && typeof again === 'number'
}
