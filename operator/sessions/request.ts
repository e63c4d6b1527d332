import type { Operator } from '#shared/operators/operator-account.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Who is signed in; `null` on public routes, such as the sign-in page, without a session. */
    operator: Operator | null
  }
  interface FastifyContextConfig {
    /** Whether strangers may use the route; false by default, so that a new route needs a session. */
    isPublic?: boolean
  }
}
