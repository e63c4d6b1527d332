import { setTimeout as sleep } from 'node:timers/promises'

const FIRST_DELAY_MS = 500
const LONGEST_DELAY_MS = 30_000

/** A server that asks for repetitions without a wait gets few of them. */
const LONGEST_LEAST_DELAY_MS = 1000
/** Node's timers end at once when they are longer. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1

/** The waits of one call: as long as the server asks for, otherwise doubling with jitter, within the call's patience. */
export class RetrySchedule {
  readonly #endsAt: number
  readonly #now: () => number
  #failures = 0

  constructor(patienceMs: number, now: () => number) {
    this.#now = now
    this.#endsAt = now() + patienceMs
  }

  /** Returns the next wait in whole milliseconds, or `null` if it would end after the call's patience. */
  next(askedMs: number | undefined): number | null {
    const longest = Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** this.#failures)
    const least = Math.min(LONGEST_LEAST_DELAY_MS, 2 ** this.#failures)
    this.#failures += 1
    const wait = askedMs === undefined ? Math.round(longest * (0.5 + Math.random() / 2)) : Math.max(askedMs, least)
    return this.#now() + wait > this.#endsAt ? null : wait
  }
}

/** Waits; rejects as soon as the signal is aborted. */
export async function wait(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  await sleep(Math.min(milliseconds, LONGEST_TIMER_MS), undefined, signal === undefined ? {} : { signal })
}

/** Waits for what others wait for as well; an interrupted call leaves it to them. */
export async function unlessAborted<Result>(
  shared: Promise<Result>,
  signal: AbortSignal | undefined,
  interrupted: () => Error,
): Promise<Result> {
  if (signal === undefined) return await shared
  const race = new AbortController()
  const aborted = new Promise<never>((_resolve, reject) => {
    const abort = () => reject(interrupted())
    if (signal.aborted) abort()
    // The listener ends with the race.
    else signal.addEventListener('abort', abort, { once: true, signal: race.signal })
  })
  try {
    return await Promise.race([shared, aborted])
  } finally {
    race.abort()
  }
}
