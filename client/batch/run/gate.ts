import { LONGEST_TIMER_MS } from '../../payment/retry-schedule.ts'

/** What a waiting upload is granted: `false` if nothing more is begun. */
type Grant = (granted: boolean) => void

interface GateOptions {
  readonly limit: number
  readonly onChange: (limit: number, reason: string) => void
  readonly now?: () => number
}

/** How long one halving is enough if the service names no time. */
const SHORTEST_PAUSE_MS = 1000

/**
 * Limits how many uploads are under way. The limit is halved when the service is busy, once for all that it turns away
 * at the same time, and grows by one after as many successes as it is high.
 */
export class Gate {
  #highest: number
  readonly #onChange: GateOptions['onChange']
  readonly #now: () => number
  #limit: number
  #running = 0
  #successes = 0
  #pausedUntil = 0
  #isClosed = false
  /** Further parts of what is begun come before anything new. */
  readonly #parts: Grant[] = []
  readonly #files: Grant[] = []
  #timer: NodeJS.Timeout | undefined

  constructor({ limit, onChange, now = () => performance.now() }: GateOptions) {
    this.#highest = limit
    this.#limit = limit
    this.#onChange = onChange
    this.#now = now
  }

  get limit(): number {
    return this.#limit
  }

  /** Resolves when an upload may begin; with `false` for a new file when no more are begun. */
  enter(kind: 'file' | 'part'): Promise<boolean> {
    return new Promise((resolve) => {
      if (kind === 'part') this.#parts.push(resolve)
      else this.#files.push(resolve)
      this.#admit()
    })
  }

  leave(): void {
    this.#running -= 1
    this.#admit()
  }

  /** Begins no more files; further parts of those under way still are. */
  close(): void {
    this.#isClosed = true
    this.#admit()
  }

  /** Begins no more files and waits for nothing. */
  abort(): void {
    this.#pausedUntil = 0
    this.close()
  }

  /** Halves the limit and holds new uploads back, unless that was done for the same time already. */
  slowDown(reason: string, waitMs: number): void {
    const until = this.#now() + Math.max(waitMs, SHORTEST_PAUSE_MS)
    const isPaused = this.#now() < this.#pausedUntil
    this.#pausedUntil = Math.max(this.#pausedUntil, until)
    if (!isPaused) this.#change(Math.max(1, Math.floor(this.#limit / 2)), reason)
  }

  /** Makes all uploads wait for each other, to the end. */
  oneAtATime(reason: string): void {
    this.#highest = 1
    this.#change(1, reason)
  }

  succeeded(): void {
    this.#successes += 1
    if (this.#successes < this.#limit || this.#limit >= this.#highest || this.#now() < this.#pausedUntil) return
    this.#change(this.#limit + 1, 'recovered')
    this.#admit()
  }

  /** Ends the wait for the next upload. */
  dispose(): void {
    clearTimeout(this.#timer)
  }

  #change(limit: number, reason: string): void {
    this.#successes = 0
    if (limit === this.#limit) return
    this.#limit = limit
    this.#onChange(limit, reason)
  }

  #admit(): void {
    if (this.#isClosed) for (const grant of this.#files.splice(0)) grant(false)
    const pauseMs = this.#pausedUntil - this.#now()
    if (pauseMs > 0) {
      this.#awake(pauseMs)
      return
    }
    while (this.#running < this.#limit) {
      const grant = this.#parts.shift() ?? this.#files.shift()
      if (grant === undefined) return
      this.#running += 1
      grant(true)
    }
  }

  #awake(afterMs: number): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#admit(), Math.min(afterMs, LONGEST_TIMER_MS))
  }
}
