import { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'

/** Limits of the answers that clients do not read. */
export interface UnreadAnswerLimits {
  /**
   * A connection on which an answer makes no progress for this time is closed. A reader of 30 KB/s makes some: megabytes that
   * it has not read yet are with the operating systems.
   */
  readonly stalledMs: number
  /** Bytes of all unsent answers; beyond it the connection that has waited longest is closed. */
  readonly totalBytes: number
}

const DEFAULT_LIMITS: UnreadAnswerLimits = { stalledMs: 120_000, totalBytes: 134_217_728 }

/** Less than what the operating systems of both sides hold for a connection. */
const SMALL_BYTES = 65_536

/**
 * Bounds the memory of answers that their clients do not read: a result of megabytes, paid for once, could be asked for over any
 * number of connections. Nothing is lost, as the same request gets the same answer again. Streams are left out: they wait for
 * their reader with a buffer of kilobytes.
 */
export function limitUnreadAnswers(app: FastifyInstance, limits = DEFAULT_LIMITS): void {
  const unread = new Map<Socket, number>()
  let totalBytes = 0
  const count = (socket: Socket, bytes: number) => {
    totalBytes += bytes
    const left = (unread.get(socket) ?? 0) + bytes
    if (left > 0) unread.set(socket, left)
    else unread.delete(socket)
  }
  app.addHook('onSend', ({ raw: { socket } }, reply, payload, done) => {
    const bytes = typeof payload === 'string' || Buffer.isBuffer(payload) ? payload.length : 0
    // A request that was injected has no connection.
    if (bytes > SMALL_BYTES && socket instanceof Socket) {
      const { raw } = reply
      // Behind another answer of its connection it is only counted: that one may be of a held caller, to whom nothing is sent.
      if (raw.socket !== null) {
        // Node begins anew whenever some of it was sent.
        socket.setTimeout(limits.stalledMs)
        // In front of Node's own listener, which sets the time that an idle connection is kept.
        raw.prependOnceListener('finish', () => socket.setTimeout(0))
      }
      // With a validator it is one copy for all who ask.
      if (!reply.hasHeader('etag')) {
        count(socket, bytes)
        raw.once('close', () => count(socket, -bytes))
        let excess = totalBytes - limits.totalBytes
        for (const [oldest, left] of unread) {
          if (excess <= 0 || oldest === socket) break
          // It is counted until it has closed.
          oldest.destroy()
          excess -= left
        }
      }
    }
    done(null, payload)
  })
}
