import type { FastifyReply, FastifyRequest } from 'fastify'

interface HoldOptions {
  readonly holdMs: number
  /** Aborts when held callers must be answered because the process stops. */
  readonly stopping: AbortSignal
  /** Called when the caller is no longer held. */
  readonly freeSlot: () => void
}

/** How long a caller may be kept waiting; `release` removes the timer and the listeners. */
export interface HeldConnection {
  /** Aborts when the caller must be answered. */
  readonly stopWaiting: AbortSignal
  readonly release: () => void
}

/** The connection of callers who cannot be kept waiting: they are answered with the job's current state. */
const RESPOND_IMMEDIATELY: HeldConnection = { stopWaiting: AbortSignal.abort(), release: () => undefined }

/**
 * How long a caller who has closed the sending half of the connection is held. Most calls are done by then. It is not
 * visible whether such a caller still reads, so they must not keep a slot for long.
 */
const HALF_CLOSED_HOLD_MS = 10_000

/**
 * Holds a caller for at most `holdMs`, until they disconnect or the process stops. Uses its own timer: the one of
 * `AbortSignal.timeout` would stay in memory for all that time after the response.
 */
export function holdConnection(
  { raw: { socket } }: FastifyRequest,
  { raw: reply }: FastifyReply,
  { holdMs, stopping, freeSlot }: HoldOptions,
): HeldConnection {
  const ended = new AbortController()
  const end = () => ended.abort()
  let timer = setTimeout(end, holdMs)
  const shorten = () => {
    clearTimeout(timer)
    timer = setTimeout(end, Math.min(holdMs, HALF_CLOSED_HOLD_MS))
  }
  // The caller may have disconnected before the hold began.
  if (stopping.aborted || reply.closed) end()
  stopping.addEventListener('abort', end)
  reply.on('close', end)
  if (socket.readableEnded) shorten()
  else socket.on('end', shorten)
  return {
    stopWaiting: ended.signal,
    release: () => {
      freeSlot()
      clearTimeout(timer)
      socket.off('end', shorten)
      reply.off('close', end)
      stopping.removeEventListener('abort', end)
    },
  }
}

/** Holds one caller, in one slot at a time. */
export interface CallerHold {
  /**
   * Moves the caller to a slot and returns the signal that ends the wait there. `null` is no slot: the signal is
   * aborted.
   */
  readonly holdIn: (freeSlot: (() => void) | null) => AbortSignal
  /** Frees the slot. */
  readonly release: () => void
}

/** Creates the hold of a caller who may wait for one thing after another, for at most `holdMs` in all. */
export function createCallerHold(
  request: FastifyRequest,
  reply: FastifyReply,
  options: Omit<HoldOptions, 'freeSlot'>,
): CallerHold {
  let connection = RESPOND_IMMEDIATELY
  let endsAt: number | null = null
  return {
    holdIn: (freeSlot) => {
      connection.release()
      endsAt ??= performance.now() + options.holdMs
      const holdMs = Math.max(0, endsAt - performance.now())
      connection = freeSlot ? holdConnection(request, reply, { ...options, holdMs, freeSlot }) : RESPOND_IMMEDIATELY
      return connection.stopWaiting
    },
    release: () => connection.release(),
  }
}
