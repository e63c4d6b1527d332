import type { AppError } from '#shared/errors/app-error.ts'
import { overloaded, UNPAID_SHARE } from '../request/overloaded.ts'

/** Limits of the load on one API process. */
export interface LoadLimits {
  /** Bytes of request bodies in memory. */
  readonly bodyBytes: number
  /** Paying requests in progress, nearly all of which wait for their result. */
  readonly heldConnections: number
  /** How long accepted work may have waited for a worker. */
  readonly queueAgeMs: number
}

/** A request as known before its body is read. */
export interface RequestedWork {
  readonly isPaying: boolean
  /** 0 when the body does not announce its length: it is counted as it arrives. */
  readonly announcedBytes: number
  /** Seconds until a decoder may be free; `null` when one is free now, or none is needed. */
  readonly decoderRetryAfterSeconds: number | null
  /** Returns how long the oldest job of this kind has waited. */
  queueAgeMs(): Promise<number>
  /** Returns whether the request's key already has a job that did not fail: then the request adds no work. */
  hasJob(): Promise<boolean>
}

/**
 * A request's share of the limits, reference-counted: it is freed when every `retain` has been matched by a `release`.
 */
export interface Reservation {
  readonly isPaying: boolean
  /** Otherwise the caller is answered immediately with the job's current state. */
  readonly mayBeHeld: boolean
  /** Counts what has arrived of the body. Throws `overloaded` when there is no room for it. */
  count(arrivedBytes: number): void
  /** Called when the body is no longer in memory. */
  releaseBody(): void
  retain(): void
  release(): void
}

export interface LoadGate {
  /**
   * Throws `overloaded` (503) when the work does not fit. Called before the body is read and before any payment is
   * checked.
   */
  admit(work: RequestedWork): Promise<Reservation>
  /** Returns what is reserved now, for metrics and tests. */
  readonly currentLoad: () => { readonly bodyBytes: number; readonly heldConnections: number }
}

/** Time limit from the first byte of a request to the last: 25 MiB at 0.9 Mbit/s. */
export const REQUEST_TIMEOUT_MS = 240_000

/** A body is not judged slow before this time. */
const SLOW_START_MS = 10_000

/** Memory of a request in addition to its body. */
const REQUEST_OVERHEAD_BYTES = 16 * 1024

/** Bodies are read, and most work is done, within seconds. */
const BODY_RETRY_SECONDS = 2
const HELD_RETRY_SECONDS = 5
const MAXIMUM_RETRY_SECONDS = 60

/** A body that is being received, and the memory reserved for it. */
interface ArrivingBody {
  readonly announcedBytes: number
  readonly sinceMs: number
  arrivedBytes: number
  reserved: number
}

/**
 * Creates the gate, which counts the work in progress in this process and admits what still fits. `now` is monotonic,
 * in milliseconds.
 */
export function createLoadGate(limits: LoadLimits, now: () => number = () => performance.now()): LoadGate {
  const arriving = new Set<ArrivingBody>()
  let bodyBytes = 0
  let heldConnections = 0

  function requireRoom(isPaying: boolean, additional: number): void {
    // A lone body always fits, whatever its share of the limit.
    const fits = () => bodyBytes === 0 || bodyBytes + additional <= shareOf(limits.bodyBytes, isPaying)
    if (fits()) return
    shrinkSlowReservations()
    if (fits()) return
    throw overloaded('The memory for request bodies is in use.', BODY_RETRY_SECONDS)
  }

  /**
   * Cuts the reservation of each body that is too slow to arrive in time to the bytes that have arrived, and counts the
   * rest as it arrives. Otherwise a client could shut others out by announcing much and sending little.
   */
  function shrinkSlowReservations(): void {
    for (const body of arriving) {
      const elapsedMs = now() - body.sinceMs
      const isSlow = body.arrivedBytes * REQUEST_TIMEOUT_MS < body.announcedBytes * elapsedMs
      const needed = body.arrivedBytes + REQUEST_OVERHEAD_BYTES
      if (elapsedMs < SLOW_START_MS || !isSlow || body.reserved <= needed) continue
      bodyBytes -= body.reserved - needed
      body.reserved = needed
    }
  }

  /** Returns the reason why there is no room for new work, or `null`. */
  function refusalOf({ isPaying, decoderRetryAfterSeconds }: RequestedWork, waitingMs: number): AppError | null {
    if (decoderRetryAfterSeconds !== null && !isPaying)
      return overloaded('Every audio decoder is busy.', decoderRetryAfterSeconds)
    if (heldConnections >= shareOf(limits.heldConnections, isPaying))
      return overloaded('Too many paid requests are in progress.', HELD_RETRY_SECONDS)
    if (waitingMs <= shareOf(limits.queueAgeMs, isPaying)) return null
    const seconds = Math.ceil(waitingMs / 2000)
    return overloaded('Accepted work is waiting for a worker.', Math.min(seconds, MAXIMUM_RETRY_SECONDS))
  }

  return {
    admit: async (work) => {
      const { isPaying, announcedBytes } = work
      const refusal = refusalOf(work, await work.queueAgeMs())
      // A caller who has already paid is answered regardless of the load.
      if (refusal && !(isPaying && (await work.hasJob()))) throw refusal
      // No `await` from here on: the request must be counted before the next one is checked.
      const reserved = announcedBytes + REQUEST_OVERHEAD_BYTES
      requireRoom(isPaying, reserved)
      const mayBeHeld = isPaying && heldConnections < limits.heldConnections
      bodyBytes += reserved
      heldConnections += mayBeHeld ? 1 : 0
      const body: ArrivingBody = { announcedBytes, sinceMs: now(), arrivedBytes: 0, reserved }
      arriving.add(body)
      return createReservation({ isPaying, mayBeHeld, body })
    },
    currentLoad: () => ({ bodyBytes, heldConnections }),
  }

  function createReservation({
    isPaying,
    mayBeHeld,
    body,
  }: Pick<Reservation, 'isPaying' | 'mayBeHeld'> & { body: ArrivingBody }) {
    let holders = 1
    const releaseBody = () => {
      arriving.delete(body)
      bodyBytes -= body.reserved
      body.reserved = 0
    }
    return {
      isPaying,
      mayBeHeld,
      count: (arrivedBytes: number) => {
        body.arrivedBytes = arrivedBytes
        if (arrivedBytes >= body.announcedBytes) arriving.delete(body)
        const additional = arrivedBytes + REQUEST_OVERHEAD_BYTES - body.reserved
        if (additional <= 0) return
        requireRoom(isPaying, additional)
        bodyBytes += additional
        body.reserved += additional
      },
      releaseBody,
      retain: () => {
        holders += 1
      },
      release: () => {
        holders -= 1
        if (holders !== 0) return
        releaseBody()
        heldConnections -= mayBeHeld ? 1 : 0
      },
    }
  }
}

function shareOf(limit: number, isPaying: boolean): number {
  return isPaying ? limit : limit * UNPAID_SHARE
}
