import { AppError } from '#shared/errors/app-error.ts'

/** What one API process takes on at most. */
export interface LoadLimits {
  /** Bytes of request bodies that are being read or held. */
  readonly bodyBytes: number
  /** Paying requests under way, nearly all of which wait for their result. */
  readonly heldConnections: number
  /** How long accepted work may have been waiting for a worker. */
  readonly queueAgeMs: number
}

/** What is known of a request before its body is read. */
export interface AskedWork {
  readonly isPaying: boolean
  /** 0 when the body does not tell its length: it is counted as it arrives. */
  readonly announcedBytes: number
  /** Seconds after which an upload may find a decoder; `null` when there is a place, or none is needed. */
  readonly decoderRetryAfterSeconds: number | null
  /** How long the oldest job of this kind has been waiting. */
  queueAgeMs(): Promise<number>
  /** Whether the request's key has a job that was not in vain: then it makes no new work. */
  hasJob(): Promise<boolean>
}

/** A request's part of the limits. Counted until everyone who retained it has released it. */
export interface Lease {
  readonly isPaying: boolean
  /** Otherwise the caller is told at once how his job stands. */
  readonly mayBeHeld: boolean
  /** Told how much of the body has arrived, which may turn out more than there is room for. Throws `overloaded`. */
  count(arrivedBytes: number): void
  /** The body is not in memory any more. */
  releaseBody(): void
  retain(): void
  release(): void
}

export interface LoadGate {
  /** Throws `overloaded` (503) when the work does not fit: before its body is read and before any payment is looked at. */
  admit(work: AskedWork): Promise<Lease>
  /** For metrics and tests. */
  readonly present: () => { readonly bodyBytes: number; readonly heldConnections: number }
}

/**
 * Of every limit the part that quoting may use up. The rest is for callers who bring a payment: whoever was quoted a price
 * finds a place for the signed retry.
 */
export const UNPAID_SHARE = 0.75

/** From the first byte to the last of a request; 25 MiB take this long at 0.9 Mbit/s. */
export const REQUEST_TIMEOUT_MS = 240_000

/** A connection may take this long to get going. */
const SLOW_START_MS = 10_000

/** A request without a body costs memory too. */
const REQUEST_BYTES = 16 * 1024

/** Bodies are read, and most work is done, within seconds. */
const BODY_RETRY_SECONDS = 2
const HELD_RETRY_SECONDS = 5
const LONGEST_RETRY_SECONDS = 60

/** A body on its way, and the room that is kept for it. */
interface ArrivingBody {
  readonly announcedBytes: number
  readonly sinceMs: number
  arrivedBytes: number
  reserved: number
}

/** Counts what is under way in this process and admits what still fits. `now` is monotonic, in milliseconds. */
export function createLoadGate(limits: LoadLimits, now: () => number = () => performance.now()): LoadGate {
  const arriving = new Set<ArrivingBody>()
  let bodyBytes = 0
  let heldConnections = 0

  function requireRoom(isPaying: boolean, additional: number): void {
    // A lone body always fits, whatever share the limit leaves it.
    const fits = () => bodyBytes === 0 || bodyBytes + additional <= partOf(limits.bodyBytes, isPaying)
    if (fits()) return
    takeRoomFromSlowBodies()
    if (fits()) return
    throw overloaded('It reads as many request bodies as it has memory for.', BODY_RETRY_SECONDS)
  }

  /**
   * Whoever announces much and sends little keeps others out for nothing: what comes too slowly to be whole in time keeps room for
   * what has arrived, and counts as it arrives from then on.
   */
  function takeRoomFromSlowBodies(): void {
    for (const body of arriving) {
      const passedMs = now() - body.sinceMs
      const isSlow = body.arrivedBytes * REQUEST_TIMEOUT_MS < body.announcedBytes * passedMs
      const present = body.arrivedBytes + REQUEST_BYTES
      if (passedMs < SLOW_START_MS || !isSlow || body.reserved <= present) continue
      bodyBytes -= body.reserved - present
      body.reserved = present
    }
  }

  /** Why there is no room for new work, or `null`. */
  function refuseNewWork({ isPaying, decoderRetryAfterSeconds }: AskedWork, waitingMs: number): AppError | null {
    if (decoderRetryAfterSeconds !== null && !isPaying)
      return overloaded('Every audio decoder is busy.', decoderRetryAfterSeconds)
    if (heldConnections >= partOf(limits.heldConnections, isPaying))
      return overloaded('It holds as many callers as it may.', HELD_RETRY_SECONDS)
    if (waitingMs <= partOf(limits.queueAgeMs, isPaying)) return null
    const seconds = Math.ceil(waitingMs / 2000)
    return overloaded('Accepted work waits for its turn.', Math.min(seconds, LONGEST_RETRY_SECONDS))
  }

  return {
    admit: async (work) => {
      const { isPaying, announcedBytes } = work
      const refusal = refuseNewWork(work, await work.queueAgeMs())
      // Somebody who paid already is answered whatever the load.
      if (refusal && !(isPaying && (await work.hasJob()))) throw refusal
      // From here on nothing is awaited, so that what was found to fit is counted before anyone else looks.
      const reserved = announcedBytes + REQUEST_BYTES
      requireRoom(isPaying, reserved)
      const mayBeHeld = isPaying && heldConnections < limits.heldConnections
      bodyBytes += reserved
      heldConnections += mayBeHeld ? 1 : 0
      const body: ArrivingBody = { announcedBytes, sinceMs: now(), arrivedBytes: 0, reserved }
      arriving.add(body)
      return createLease({ isPaying, mayBeHeld, body })
    },
    present: () => ({ bodyBytes, heldConnections }),
  }

  function createLease({ isPaying, mayBeHeld, body }: Pick<Lease, 'isPaying' | 'mayBeHeld'> & { body: ArrivingBody }) {
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
        const additional = arrivedBytes + REQUEST_BYTES - body.reserved
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

function partOf(limit: number, isPaying: boolean): number {
  return isPaying ? limit : limit * UNPAID_SHARE
}

/** The refusal of work that does not fit, with what there is too much of. */
export function overloaded(reason: string, retryAfterSeconds: number): AppError {
  const message = `The service takes no more work at the moment. ${reason} No payment was taken; retry after the time given.`
  return new AppError('overloaded', { message, retryAfterSeconds })
}
