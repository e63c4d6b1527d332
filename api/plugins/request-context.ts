import { randomUUID } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import type { Logger } from '#shared/runtime/logger.ts'
import './request-telemetry.ts'

/** Names each request, answers with the name in both spellings that clients read, and writes one log line per answer. */
export function addRequestContext(app: FastifyInstance, logger: Logger): void {
  app.addHook('onRequest', (request, reply, done) => {
    reply.headers({ 'x-request-id': request.id, 'request-id': request.id })
    done()
  })
  app.addHook('onResponse', (request, reply, done) => {
    logger.info('answered', {
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

/** A caller's own id is never taken over: it would let a stranger write into logs and receipts. */
export function newRequestId(): string {
  return randomUUID()
}
