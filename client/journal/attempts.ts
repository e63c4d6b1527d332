import { type Attempt, applyEntry } from './attempt.ts'
import type { JournalEntry } from './entries.ts'

export type AttemptListener = (after: Attempt, isOwn: boolean) => void

/** The calls of all journal files, by key. */
export class Attempts {
  readonly #byKey = new Map<string, Attempt>()
  readonly #byIdentity = new Map<string, Set<string>>()
  readonly #byReceipt = new Map<string, string>()
  readonly #listeners = new Set<AttemptListener>()

  apply(entry: JournalEntry, writer: string, isOwn: boolean): void {
    const after = applyEntry(this.#byKey.get(entry.key), entry, writer)
    this.#byKey.set(entry.key, after)
    if (entry.phase === 'intended') this.#index(entry.identity, entry.key)
    if (entry.phase === 'answered' && entry.receiptId !== null) this.#byReceipt.set(entry.receiptId, entry.key)
    for (const listener of this.#listeners) listener(after, isOwn)
  }

  get(key: string): Attempt | undefined {
    return this.#byKey.get(key)
  }

  all(): Iterable<Attempt> {
    return this.#byKey.values()
  }

  /** Returns the calls with the same method, URL and body, oldest first. */
  withIdentity(identity: string): readonly Attempt[] {
    const keys = [...(this.#byIdentity.get(identity) ?? [])]
    return keys.map((key) => this.#byKey.get(key)).filter((attempt) => attempt !== undefined)
  }

  /** Returns the call that a receipt is of. */
  withReceipt(receiptId: string): Attempt | undefined {
    const key = this.#byReceipt.get(receiptId)
    return key === undefined ? undefined : this.#byKey.get(key)
  }

  /** Reports every later change, after one report for each call that is known already. */
  subscribe(listener: AttemptListener): void {
    for (const attempt of this.#byKey.values()) listener(attempt, false)
    this.#listeners.add(listener)
  }

  #index(identity: string, key: string): void {
    const keys = this.#byIdentity.get(identity)
    if (keys === undefined) this.#byIdentity.set(identity, new Set([key]))
    else keys.add(key)
  }
}
