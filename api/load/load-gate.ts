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
  /** Counts a body that turns out larger than announced. Throws `overloaded`. */
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

/** A request without a body costs memory too. */
const REQUEST_BYTES = 16 * 1024

/** Bodies are read, and most work is done, within seconds. */
const BODY_RETRY_SECONDS = 2
const HELD_RETRY_SECONDS = 5
const LONGEST_RETRY_SECONDS = 60

/** Counts what is under way in this process and admits what still fits. */
export function createLoadGate(limits: LoadLimits): LoadGate {
  let bodyBytes = 0
  let heldConnections = 0

  function requireRoom(isPaying: boolean, additional: number): void {
    // A lone body always fits, whatever share the limit leaves it.
    if (bodyBytes === 0 || bodyBytes + additional <= partOf(limits.bodyBytes, isPaying)) return
    throw overloaded('It reads as many request bodies as it has memory for.', BODY_RETRY_SECONDS)
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
      return createLease({ isPaying, mayBeHeld, reserved })
    },
    present: () => ({ bodyBytes, heldConnections }),
  }

  function createLease({
    isPaying,
    mayBeHeld,
    ...initial
  }: Pick<Lease, 'isPaying' | 'mayBeHeld'> & { reserved: number }) {
    let { reserved } = initial
    let holders = 1
    const releaseBody = () => {
      bodyBytes -= reserved
      reserved = 0
    }
    return {
      isPaying,
      mayBeHeld,
      count: (arrivedBytes: number) => {
        const additional = arrivedBytes + REQUEST_BYTES - reserved
        if (additional <= 0) return
        requireRoom(isPaying, additional)
        bodyBytes += additional
        reserved += additional
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
