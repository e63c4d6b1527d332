import fastify, { type FastifyInstance } from 'fastify'
import type { Logger } from '#shared/runtime/logger.ts'
import { addPages, NAVIGATION, type PageDependencies } from './pages/index.ts'
import { addAssets } from './rendering/assets.ts'
import { addRendering } from './rendering/console.ts'
import { addFailures, answerUnreadable } from './rendering/failures.ts'
import { addFormBodies } from './rendering/forms.ts'
import { addSecurityHeaders } from './rendering/security-headers.ts'
import { addHostCheck } from './sessions/require-host.ts'
import { addSessions, type SessionDependencies } from './sessions/session.ts'

/** The id of a settlement without a record names network, payer and a nonce of up to 78 digits. */
const LONGEST_PARAMETER = 500

/** Everything that the console needs; composed at start. */
export interface ConsoleDependencies extends PageDependencies, SessionDependencies {
  readonly logger: Logger
  readonly now: () => Date
  /** Returns whether a thrown error means that the database does not answer. */
  readonly isDependencyFailure: (error: unknown) => boolean
  /** The hosts that browsers may name, next to loopback: `name`, or `name:port` for another port than the scheme's. */
  readonly hosts: readonly string[]
  /** Proxies whose `X-Forwarded-For` is trusted, since sign-ins are limited by address. */
  readonly trustedProxies: readonly string[] | undefined
}

/** Builds the console; the caller starts and stops it. */
export async function buildConsole(dependencies: ConsoleDependencies): Promise<FastifyInstance> {
  const app = fastify({
    logger: false,
    trustProxy: dependencies.trustedProxies === undefined ? false : [...dependencies.trustedProxies],
    forceCloseConnections: 'idle',
    frameworkErrors: answerUnreadable,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: LONGEST_PARAMETER },
  })
  addFormBodies(app)
  addSecurityHeaders(app)
  addHostCheck(app, dependencies.hosts)
  await addSessions(app, dependencies)
  await addRendering(app, { navigation: NAVIGATION, now: dependencies.now })
  addFailures(app, dependencies)
  await addAssets(app)
  app.get('/operator/healthz', { config: { isPublic: true, isForAnyHost: true } }, async () => ({ status: 'ok' }))
  app.get('/', { config: { isPublic: true } }, async (_request, reply) => reply.redirect('/operator', 303))
  addPages(app, dependencies)
  return app
}
