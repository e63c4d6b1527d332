import type { FastifyInstance } from 'fastify'

/**
 * Closes each connection after its response once `draining` has aborted, so that proxies with keep-alive connections
 * send their next request to another process and no connection is closed while a request is arriving.
 */
export function addDraining(app: FastifyInstance, draining: AbortSignal): void {
  app.addHook('onSend', (_request, reply, payload, done) => {
    if (draining.aborted) reply.header('connection', 'close')
    done(null, payload)
  })
}
