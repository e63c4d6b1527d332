import { randomUUID } from 'node:crypto'
import type { Journal } from '../journal/journal.ts'

/** A result is kept for at least a day, so an unfinished call that is older is made again under another key. */
const RESUMABLE_MS = 86_400_000

/** One sending of a logical call. */
export interface LogicalCall {
  readonly key: string
  /** Ends the call: another equal request is another call. */
  succeed(): void
  /** Keeps the key for the next equal request, which repeats the call. */
  fail(): void
}

/**
 * Assigns idempotency keys to requests that bring none. An equal request repeats a call that failed, was aborted or was
 * left unfinished by an earlier process; otherwise it is another call, even while an equal one is under way.
 */
export class LogicalCalls {
  readonly #journal: Journal
  readonly #now: () => number
  readonly #failed = new Map<string, string[]>()
  readonly #known = new Set<string>()

  constructor(journal: Journal, now: () => number = Date.now) {
    this.#journal = journal
    this.#now = now
  }

  begin(identity: string): LogicalCall {
    const key = this.#takeFailed(identity) ?? this.#takeUnfinished(identity) ?? randomUUID()
    this.#known.add(key)
    let isOver = false
    return {
      key,
      succeed: () => {
        isOver = true
      },
      fail: () => {
        if (isOver) return
        isOver = true
        this.#failed.set(identity, [...(this.#failed.get(identity) ?? []), key])
      },
    }
  }

  #takeFailed(identity: string): string | undefined {
    const [first, ...others] = this.#failed.get(identity) ?? []
    if (others.length > 0) this.#failed.set(identity, others)
    else this.#failed.delete(identity)
    return first
  }

  /** Calls of this process are known: they are under way, failed or finished. */
  #takeUnfinished(identity: string): string | undefined {
    const since = this.#now() - RESUMABLE_MS
    return this.#journal.attempts
      .withIdentity(identity)
      .find(
        ({ key, receipts, changedAt, writer }) =>
          receipts.length === 0 &&
          changedAt >= since &&
          !this.#known.has(key) &&
          !this.#journal.isWrittenElsewhere(writer),
      )?.key
  }
}
