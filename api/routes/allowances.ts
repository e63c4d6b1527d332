import type { FastifyInstance } from 'fastify'
import { describeAllowance } from '../allowances/describe-allowance.ts'
import { readPermit } from '../allowances/read-permit.ts'
import { type AllowanceDependencies, storePermit } from '../allowances/store-permit.ts'
import type { RateLimiter } from '../limits/rate-limits.ts'
import type { VerificationLimiter } from '../paid-request/pay/verify-authorization.ts'
import { requireJson } from '../request/headers.ts'
import { readWallet } from '../request/query-wallet.ts'

const PATH = '/v1/allowances'
/** Many times the longest permit. */
const BODY_LIMIT_BYTES = 8 * 1024

interface RouteDependencies {
  readonly allowances: AllowanceDependencies
  readonly limitRate: RateLimiter
  /** Each permit costs RPC calls before it is known to be good, as the payment of a new payer does. */
  readonly limitVerifications: VerificationLimiter
}

/**
 * Adds `GET /v1/allowances?owner=`, which says what Permit2 may take of an owner and what to sign, and
 * `POST /v1/allowances`, which stores the signed permit for the owner's next charge.
 */
export function addAllowanceRoutes(app: FastifyInstance, dependencies: RouteDependencies): void {
  const { allowances, limitRate, limitVerifications } = dependencies
  app.get(PATH, {
    onRequest: async (request, reply) => limitRate(request, reply, 'openai'),
    handler: async (request, reply) => {
      const owner = readWallet(request.query, 'owner').toLowerCase() as `0x${string}`
      return reply.header('cache-control', 'no-store').send(await describeAllowance(allowances, owner))
    },
  })
  app.post(PATH, {
    bodyLimit: BODY_LIMIT_BYTES,
    onRequest: async (request, reply) => {
      limitRate(request, reply, 'openai')
      requireJson(request.headers)
    },
    handler: async (request, reply) => {
      const permit = readPermit(request.body, allowances.terms.permit2)
      const answer = await storePermit(allowances, permit, () => void limitVerifications(request))
      return reply.header('cache-control', 'no-store').send(answer)
    },
  })
}
