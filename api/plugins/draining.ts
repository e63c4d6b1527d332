import type { FastifyInstance } from 'fastify'

/**
 * Once `draining` has aborted every answer ends its connection, so that proxies which keep connections open send their next
 * request to somebody else, and none of them is cut while a request is on its way.
 */
export function addDraining(app: FastifyInstance, draining: AbortSignal): void {
  app.addHook('onSend', (_request, reply, payload, done) => {
    if (draining.aborted) reply.header('connection', 'close')
    done(null, payload)
  })
}
