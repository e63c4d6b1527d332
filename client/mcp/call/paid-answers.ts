import type { Answer } from '../../farebox.ts'

interface Kept {
  readonly identity: string
  readonly answer: Answer<unknown>
  readonly size: number
}

/** A session may last for days. */
const MOST_KEPT = 32 * 1024 * 1024

/**
 * The answers that a session has paid for, the latest ones within a bound. A repetition is answered from here without a
 * request and without a signature, also when the limits are used up; beyond the bound, the service repeats the answer.
 */
export class PaidAnswers {
  readonly #kept = new Map<string, Kept>()
  readonly #most: number
  #size = 0

  constructor(most = MOST_KEPT) {
    this.#most = most
  }

  /** Returns what was paid for under a key. */
  get(key: string): Pick<Kept, 'identity' | 'answer'> | undefined {
    const kept = this.#kept.get(key)
    if (kept === undefined) return undefined
    this.#drop(key, kept)
    this.#add(key, kept)
    return kept
  }

  keep(key: string, identity: string, answer: Answer<unknown>): void {
    const before = this.#kept.get(key)
    if (before !== undefined) this.#drop(key, before)
    this.#add(key, { identity, answer, size: JSON.stringify(answer.result).length })
    for (const [oldest, kept] of this.#kept) {
      if (this.#size <= this.#most) break
      this.#drop(oldest, kept)
    }
  }

  #add(key: string, kept: Kept): void {
    this.#kept.set(key, kept)
    this.#size += kept.size
  }

  #drop(key: string, { size }: Kept): void {
    this.#kept.delete(key)
    this.#size -= size
  }
}
