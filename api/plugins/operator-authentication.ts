import { createHash, timingSafeEqual } from 'node:crypto'
import type { FastifyInstance } from 'fastify'

/**
 * Every route of `app`, which should be a scope of its own, is for whoever presents `token`: as a bearer token, or as the
 * password of any user, which browsers ask for. Others get 401, and nothing but reading is allowed.
 */
export function addOperatorAuthentication(app: FastifyInstance, token: string): void {
  app.addHook('onRequest', async (request, reply) => {
    reply.header('cache-control', 'no-store')
    const presented = readToken(request.headers.authorization)
    if (presented === undefined || !isSame(presented, token))
      return reply
        .status(401)
        .header('www-authenticate', 'Basic realm="farebox operators", charset="UTF-8"')
        .send({ error: 'operator_token_required' })
    // A browser adds the password to requests of foreign pages as well, so that nothing may be changed by one.
    if (request.method !== 'GET' && request.method !== 'HEAD')
      return reply.status(405).header('allow', 'GET, HEAD').send({ error: 'read_only' })
  })
}

function readToken(authorization: string | undefined): string | undefined {
  const [, scheme = '', credentials = ''] = /^(Bearer|Basic) +(\S+)$/i.exec(authorization ?? '') ?? []
  if (scheme.toLowerCase() === 'bearer') return credentials
  const [, password] = /^[^:]*:(.*)$/s.exec(Buffer.from(credentials, 'base64').toString('utf8')) ?? []
  return password
}

/** Digests are of one length, and comparing them tells nothing of how much was right. */
function isSame(one: string, other: string): boolean {
  return timingSafeEqual(digest(one), digest(other))
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
