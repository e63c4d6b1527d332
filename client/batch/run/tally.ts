import type { FareboxError } from '../../wire/farebox-error.ts'
import type { BatchProgress, FileFailure, OnBatchEvent, PlannedFile } from '../types.ts'

/** Counts what a run has reached, and reports each change. */
export class Tally {
  readonly failures: FileFailure[] = []
  readonly #onEvent: OnBatchEvent
  #finished = 0
  #skipped = 0
  #underWay = 0
  #notBegun = 0
  #durationMs = 0
  #charged = 0n
  #replayed = 0n
  #kept = 0

  constructor(files: readonly PlannedFile[], onEvent: OnBatchEvent) {
    this.#onEvent = onEvent
    for (const file of files) {
      if (file.state === 'finished') {
        this.#skipped += 1
        onEvent({ event: 'skipped', file })
      } else if (file.error !== undefined) {
        this.failures.push({ file, error: file.error })
        onEvent({ event: 'failed', file, error: file.error, charged: 0n })
      } else this.#notBegun += 1
    }
    this.#report()
  }

  progress(): BatchProgress {
    return {
      finished: this.#finished,
      skipped: this.#skipped,
      failed: this.failures.length,
      underWay: this.#underWay,
      notBegun: this.#notBegun,
      durationMs: this.#durationMs,
      charged: this.#charged,
      replayed: this.#replayed,
    }
  }

  begin(files: readonly PlannedFile[]): void {
    this.#notBegun -= files.length
    this.#underWay += files.length
    for (const file of files) this.#onEvent({ event: 'started', file })
    this.#report()
  }

  charge(charged: bigint, replayed: boolean): void {
    if (replayed) this.#replayed += charged
    else this.#charged += charged
    this.#report()
  }

  get kept(): number {
    return this.#kept
  }

  finish({ durationMs, kept = [] }: PlannedFile): void {
    this.#kept += kept.length
    this.#underWay -= 1
    this.#finished += 1
    this.#durationMs += durationMs
    this.#report()
  }

  fail(file: PlannedFile, error: FareboxError, charged: bigint): void {
    this.#underWay -= 1
    this.failures.push({ file, error })
    this.#onEvent({ event: 'failed', file, error, charged })
    this.#report()
  }

  /** The file is left for a later run. */
  leave(): void {
    this.#underWay -= 1
    this.#notBegun += 1
    this.#report()
  }

  #report(): void {
    this.#onEvent({ event: 'progress', progress: this.progress() })
  }
}
