import type { ExtendableMemory } from '../executions/execution.ts'

/** Jobs up to this size have memory reserved for them, so that large ones never block a chat request. */
const SMALL_JOB_BYTES = 4 * 1024 * 1024
const SMALL_JOB_SHARE = 1 / 8

/** How long a job waits for memory under its lease before it is deferred. */
const LONGEST_WAIT_MS = 120_000

/** The memory that a job has reserved. It is not extended into memory that other jobs are waiting for. */
export interface MemoryReservation extends ExtendableMemory {
  readonly release: () => void
}

/** The memory of one worker for what its jobs hold: uploads, requests, images and answers. */
export interface JobMemory {
  /**
   * Reserves memory, in the order of arrival; at most what one job can have. Returns `null` when `signal` aborted, the process is stopping, or no
   * memory became free in time.
   */
  reserve(bytes: number, signal: AbortSignal): Promise<MemoryReservation | null>
  /** Ends all waiting, now and in the future: the process is stopping. */
  stopWaiting(): void
  /** Returns the current use, for metrics. */
  current(): JobMemoryUse
}

interface JobMemoryUse {
  readonly limitBytes: number
  readonly reservedBytes: number
  readonly waitingJobs: number
  /** How long the first of them has waited. */
  readonly longestWaitMs: number
}

interface JobMemoryOptions {
  /** Monotonic, in milliseconds. */
  readonly now?: () => number
  readonly longestWaitMs?: number
}

/** Bytes of the part that only small jobs use, and of the rest. */
interface Parts {
  small: number
  large: number
}

interface Waiter {
  readonly bytes: number
  readonly since: number
  grant(reservation: MemoryReservation | null): void
}

/**
 * Creates the memory for `limitBytes`, in two parts. Small jobs have an eighth of it to themselves and use the rest
 * while no large job waits for it. Within each size the order of arrival is strict: nothing overtakes the first large
 * job in line, so that it gets the next memory that becomes free, however much it needs.
 */
export function createJobMemory(limitBytes: number, options: JobMemoryOptions = {}): JobMemory {
  const { now = () => performance.now(), longestWaitMs = LONGEST_WAIT_MS } = options
  const largest = largestJobBytes(limitBytes)
  const free: Parts = { small: limitBytes - largest, large: largest }
  const waiting = { small: new Set<Waiter>(), large: new Set<Waiter>() }
  const stopped = new AbortController()
  const reserveIn = (part: keyof Parts, bytes: number) =>
    createReservation(free, largest, { [part]: bytes }, { isContended: () => waiting.large.size > 0, onFreed: serve })

  /** Takes memory for a job that nobody waits before; `null` when there is not enough. */
  function take(bytes: number): MemoryReservation | null {
    if (bytes <= SMALL_JOB_BYTES && bytes <= free.small) return reserveIn('small', bytes)
    return waiting.large.size === 0 && bytes <= free.large ? reserveIn('large', bytes) : null
  }

  function serve(): void {
    for (const waiter of waiting.large) {
      if (waiter.bytes > free.large) break
      waiting.large.delete(waiter)
      waiter.grant(reserveIn('large', waiter.bytes))
    }
    for (const waiter of waiting.small) {
      const reservation = take(waiter.bytes)
      if (!reservation) break
      waiting.small.delete(waiter)
      waiter.grant(reservation)
    }
  }

  return {
    reserve: async (bytes, signal) => {
      const granted = Math.min(bytes, largest)
      const line = bytes <= SMALL_JOB_BYTES ? waiting.small : waiting.large
      const reservation = line.size === 0 ? take(granted) : null
      if (reservation) return reservation
      const ended = AbortSignal.any([signal, stopped.signal])
      // A job that leaves may have blocked those behind it.
      return await waitInLine(line, { bytes: granted, since: now() }, { ended, longestWaitMs, onLeft: serve })
    },
    stopWaiting: () => stopped.abort(),
    current: () => {
      const waiters = [...waiting.small, ...waiting.large]
      return {
        limitBytes,
        reservedBytes: limitBytes - free.small - free.large,
        waitingJobs: waiters.length,
        longestWaitMs: Math.max(0, ...waiters.map(({ since }) => now() - since)),
      }
    },
  }
}

/** Returns the most that one job can reserve of this much memory. */
export function largestJobBytes(limitBytes: number): number {
  return limitBytes * (1 - SMALL_JOB_SHARE)
}

/** Takes the first bytes. Only the large part is extended into. */
function createReservation(
  free: Parts,
  largest: number,
  first: Partial<Parts>,
  { isContended, onFreed }: { isContended: () => boolean; onFreed: () => void },
): MemoryReservation {
  const held: Parts = { small: 0, large: 0 }
  const change = (of: keyof Parts, by: number) => {
    free[of] -= by
    held[of] += by
  }
  change('small', first.small ?? 0)
  change('large', first.large ?? 0)
  const heldBytes = () => held.small + held.large
  const shrinkTo = (target: number) => {
    change('large', -Math.min(held.large, Math.max(0, heldBytes() - target)))
    change('small', -Math.max(0, held.small - target))
    onFreed()
  }
  return {
    extendTo: (target) => {
      const missing = Math.max(0, Math.min(target, largest) - heldBytes())
      if (missing > 0 && (isContended() || missing > free.large)) return false
      change('large', missing)
      return true
    },
    shrinkTo,
    release: () => shrinkTo(0),
  }
}

/** Waits for memory until it is granted, the wait is `ended` or has taken too long. */
async function waitInLine(
  line: Set<Waiter>,
  entry: Omit<Waiter, 'grant'>,
  { ended, longestWaitMs, onLeft }: { ended: AbortSignal; longestWaitMs: number; onLeft: () => void },
): Promise<MemoryReservation | null> {
  if (ended.aborted) return null
  const { promise, resolve: grant } = Promise.withResolvers<MemoryReservation | null>()
  const waiter: Waiter = { ...entry, grant }
  const leave = () => {
    // One that was granted memory is no longer in line.
    if (!line.delete(waiter)) return
    grant(null)
    onLeft()
  }
  const timer = setTimeout(leave, longestWaitMs)
  ended.addEventListener('abort', leave, { once: true })
  line.add(waiter)
  try {
    return await promise
  } finally {
    clearTimeout(timer)
    ended.removeEventListener('abort', leave)
  }
}
