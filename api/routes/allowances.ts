import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Admission } from '../admission/admission.ts'
import { describeAllowance } from '../allowances/describe-allowance.ts'
import { readPermit } from '../allowances/read-permit.ts'
import { type AllowanceAnswer, type AllowanceDependencies, requestAllowance } from '../allowances/request-allowance.ts'
import type { VerificationLimiter } from '../paid-request/payment/verify-authorization.ts'
import type { RateLimiter } from '../plugins/rate-limits.ts'
import { clientNetwork } from '../request/client-address.ts'
import { requireJson } from '../request/headers.ts'
import { readWallet } from '../request/query-wallet.ts'
import { createCallerHold } from './held-connection.ts'

const PATH = '/v1/allowances'
/** Many times the longest permit. */
const BODY_LIMIT_BYTES = 8 * 1024

interface RouteDependencies {
  readonly allowanceRequests: AllowanceDependencies
  readonly limitRate: RateLimiter
  /** Each permit costs RPC calls before it is known to be good, as the payment of a new payer does. */
  readonly limitVerifications: VerificationLimiter
  readonly admission: Pick<Admission, 'holdWithoutWork'>
  readonly holdMs: number
  readonly stopping: AbortSignal
}

/**
 * Adds `GET /v1/allowances?owner=`, which says what Permit2 may take of an owner and what to sign, and
 * `POST /v1/allowances`, which submits the signed permit at the service's cost and waits for its confirmation. A caller
 * without a slot to wait gets `allowance_pending` (503) and may repeat the request.
 */
export function addAllowanceRoutes(app: FastifyInstance, dependencies: RouteDependencies): void {
  const { allowanceRequests, limitRate } = dependencies
  app.get(PATH, {
    onRequest: async (request, reply) => limitRate(request, reply, 'openai'),
    handler: async (request, reply) => {
      const status = await describeAllowance(
        allowanceRequests,
        readWallet(request.query, 'owner').toLowerCase() as `0x${string}`,
        clientNetwork(request.ip),
      )
      return reply.header('cache-control', 'no-store').send(status)
    },
  })
  app.post(PATH, {
    bodyLimit: BODY_LIMIT_BYTES,
    onRequest: async (request, reply) => {
      limitRate(request, reply, 'openai')
      requireJson(request.headers)
    },
    handler: async (request, reply) => {
      const answer = await holdForAllowance(dependencies, request, reply)
      return reply.header('cache-control', 'no-store').send(answer)
    },
  })
}

/** Requests the allowance and keeps the caller waiting, in one of the few slots of callers without a job. */
async function holdForAllowance(
  { allowanceRequests, admission, limitVerifications, ...limits }: RouteDependencies,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<AllowanceAnswer> {
  const permit = readPermit(request.body, allowanceRequests.terms.permit2)
  const hold = createCallerHold(request, reply, limits)
  try {
    return await requestAllowance(allowanceRequests, permit, {
      clientNetwork: clientNetwork(request.ip),
      limitReads: () => void limitVerifications(request),
      startWaiting: (owner) => hold.holdIn(admission.holdWithoutWork(request, `allowance of ${owner}`)),
    })
  } finally {
    hold.release()
  }
}
