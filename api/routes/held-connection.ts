import type { FastifyReply, FastifyRequest } from 'fastify'

/** How long a caller may be kept waiting; `release` removes the timer and the listeners. */
export interface HeldConnection {
  /** Aborts when the caller must be answered. */
  readonly stopWaiting: AbortSignal
  readonly release: () => void
}

/** For unpaid requests, and paid ones above the connection limit: they are answered with the job's current state. */
export const respondImmediately: HeldConnection = { stopWaiting: AbortSignal.abort(), release: () => undefined }

/**
 * Holds a caller for at most `holdMs`, until they disconnect or the process stops. Uses its own timer: the one of
 * `AbortSignal.timeout` would stay in memory for all that time after the response.
 */
export function holdConnection({ raw: reply }: FastifyReply, holdMs: number, stopping: AbortSignal): HeldConnection {
  const ended = new AbortController()
  const end = () => ended.abort()
  if (stopping.aborted) end()
  stopping.addEventListener('abort', end)
  reply.on('close', end)
  const timer = setTimeout(end, holdMs)
  return {
    stopWaiting: ended.signal,
    release: () => {
      clearTimeout(timer)
      reply.off('close', end)
      stopping.removeEventListener('abort', end)
    },
  }
}

/**
 * Sends `102 Processing` at intervals, so that long holds survive client and proxy timeouts: Node's fetch gives up
 * after 300 s without a byte. HTTP/1.0 has no interim responses (RFC 9110, 15.2): its clients and proxies would take
 * one for the final response. Returns the function that stops it.
 */
export function sendInterimResponses(
  { raw: request }: FastifyRequest,
  { raw: reply }: FastifyReply,
  intervalMs: number,
): () => void {
  if (intervalMs === 0 || request.httpVersion === '1.0') return () => undefined
  const timer = setInterval(() => {
    if (!reply.headersSent && !reply.destroyed) reply.writeProcessing()
  }, intervalMs)
  return () => clearInterval(timer)
}
