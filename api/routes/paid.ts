import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type AnyOperation, operations } from '#shared/operations/registry.ts'
import { handlePaidRequest, type PaidRequestDependencies } from '../paid-request/handle-paid-request.ts'
import { isProbe, mayBeProbe, renderProbeChallenge } from '../paid-request/probe-challenge.ts'
import { readIdempotencyKey, refuseDuplicateHeaders, refuseOtherThanJson } from '../paid-request/read-headers.ts'
import type { RateLimiter } from '../plugins/rate-limits.ts'

/** Node's fetch gives up after 300 s without a byte; an interim answer this often keeps long holds alive. */
const INTERIM_ANSWER_MS = 30_000

/** How long callers are held: for `holdMs`, and no longer than the process lives. */
interface Holding {
  readonly limitRate: RateLimiter
  readonly holdMs: number
  readonly stopping: AbortSignal
}

/** One route for each paid operation, all alike. */
export function addPaidRoutes(app: FastifyInstance, dependencies: PaidRequestDependencies, holding: Holding): void {
  const familyOf = new Map(operations.map(({ path, family }) => [path, family]))
  // For the whole path, whatever the method: every answer of a paid endpoint tells the caller's allowance.
  app.addHook('onRequest', async (request, reply) => {
    const family = familyOf.get(request.url.split('?', 1)[0] ?? '')
    if (family) holding.limitRate(request, reply, family)
  })
  for (const operation of operations) {
    app.post(operation.path, {
      // Before the body is read: a request without a usable key is not worth 25 MiB of upload.
      onRequest: async (request) => {
        refuseDuplicateHeaders(request.raw)
        if (mayBeProbe(request.headers)) return
        readIdempotencyKey(request.headers)
        if (!operation.upload) refuseOtherThanJson(request.headers)
      },
      handler: (request, reply) => answer(dependencies, operation, request, reply, holding),
    })
  }
}

async function answer(
  dependencies: PaidRequestDependencies,
  operation: AnyOperation,
  request: FastifyRequest,
  reply: FastifyReply,
  { holdMs, stopping }: Holding,
): Promise<FastifyReply> {
  const gone = new AbortController()
  const onClose = () => gone.abort()
  reply.raw.on('close', onClose)
  const interim = setInterval(() => reply.raw.writeProcessing(), INTERIM_ANSWER_MS)
  try {
    const held = AbortSignal.any([gone.signal, stopping, AbortSignal.timeout(holdMs)])
    const { status, headers, body } = isProbe(request.headers, request.body)
      ? renderProbeChallenge(dependencies, operation, request.id)
      : await handlePaidRequest(dependencies, operation, request, held)
    return await reply.status(status).headers(headers).send(body)
  } finally {
    clearInterval(interim)
    reply.raw.off('close', onClose)
  }
}
