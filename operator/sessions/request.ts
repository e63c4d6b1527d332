import type { Operator } from '#shared/operators/operator-account.ts'
import type { ConsoleCookies } from './cookies.ts'
import type { SessionEvents } from './events.ts'

declare module 'fastify' {
  interface FastifyInstance {
    readonly consoleCookies: ConsoleCookies
    readonly sessionEvents: SessionEvents
  }
  interface FastifyRequest {
    /** Who is signed in; `null` on public routes, such as the sign-in page, without a session. */
    operator: Operator | null
  }
  interface FastifyContextConfig {
    /** Whether strangers may use the route; false by default, so that a new route needs a session. */
    isPublic?: boolean
    /** Whether the route answers whatever host the request names; false by default. */
    isForAnyHost?: boolean
  }
}
