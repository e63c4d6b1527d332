import type { FastifyInstance } from 'fastify'
import type { Logger } from '#shared/runtime/logger.ts'
import { newId } from '#shared/runtime/new-id.ts'
import './request-telemetry.ts'

/**
 * Sends the request id in both headers that clients read, keeps browsers from guessing another content type, and logs
 * one line per response.
 */
export function addRequestContext(app: FastifyInstance, logger: Logger): void {
  app.addHook('onRequest', (request, reply, done) => {
    const { id } = request
    reply.header('x-request-id', id).header('request-id', id).header('x-content-type-options', 'nosniff')
    done()
  })
  app.addHook('onResponse', (request, reply, done) => {
    logger.info('request completed', {
      requestId: request.id,
      ...(request.trace?.traceId && { traceId: request.trace.traceId }),
      method: request.method,
      route: request.routeOptions.url ?? 'unknown',
      status: reply.statusCode,
      durationMs: Math.round(reply.elapsedTime),
    })
    done()
  })
}

/** Returns a new id. A caller's own id is never used: it would let strangers write into logs and receipts. */
export function newRequestId(): string {
  return newId()
}
