import type { FastifyInstance } from 'fastify'
import './request.ts'

/** Names of this machine, which no site can point elsewhere. A tunnel may end at any port. */
const LOOPBACK = /^(?:127\.0\.0\.1|localhost|\[::1\])(?::\d{1,5})?$/i

/**
 * Refuses requests that were sent to another name than the console's (421): a site whose name is made to lead here (DNS
 * rebinding) would otherwise be of one origin with it. Behind a trusted proxy the name that it forwards has to be known as
 * well as the one that it sends: a page may add `X-Forwarded-Host` to its requests, and a proxy may pass it on. Health
 * checks ask by whatever address they know, and learn nothing.
 */
export function addHostCheck(app: FastifyInstance, hosts: readonly string[]): void {
  const known = new Set(hosts.map((host) => host.toLowerCase()))
  const isKnown = (host: string) => LOOPBACK.test(host) || known.has(host.toLowerCase())
  app.addHook('onRequest', async ({ host, headers, routeOptions }, reply) => {
    if ((isKnown(host) && isKnown(headers.host ?? '')) || routeOptions.config.isForAnyHost) return
    return reply.status(421).type('text/plain; charset=utf-8').send('The console has another address.')
  })
}
