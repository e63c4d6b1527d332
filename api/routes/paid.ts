import multipart from '@fastify/multipart'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { AppError } from '#shared/errors/app-error.ts'
import type { ErrorCode } from '#shared/errors/error-codes.ts'
import { type AnyOperation, operations } from '#shared/operations/registry.ts'
import type { Admission } from '../admission/admission.ts'
import { isProbe, mayBeProbe, renderProbeChallenge } from '../paid-request/challenge/probe-challenge.ts'
import { handlePaidRequest, type PaidRequestDependencies } from '../paid-request/handle-paid-request.ts'
import type { RateLimiter } from '../plugins/rate-limits.ts'
import { withinTrace } from '../plugins/request-telemetry.ts'
import { readIdempotencyKey, refuseDuplicateHeaders, refuseOtherThanJson } from '../request/headers.ts'

/** What reading a body throws before any route sees it. */
const unreadableBody: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['invalid_json', 'duplicate_field'])

/** Four thousand code points, each escaped in full, and everything else of such a request. */
const SHORT_BODY_BYTES = 256 * 1024

/** Operations whose requests hold one bounded text: their bodies need not be read further. */
function isShort({ category }: AnyOperation): boolean {
  return category === 'image_generation' || category === 'text_to_speech'
}

/** Which callers are let in, and how long they are held: for `holdMs`, and no longer than the process lives. */
interface Holding {
  readonly limitRate: RateLimiter
  readonly admission: Admission
  readonly holdMs: number
  readonly interimAnswerMs: number
  readonly stopping: AbortSignal
}

/** One route for each paid operation, all alike. */
export async function addPaidRoutes(
  app: FastifyInstance,
  dependencies: PaidRequestDependencies,
  holding: Holding,
): Promise<void> {
  const familyOf = new Map(operations.map(({ path, family }) => [path, family]))
  // For the whole path, whatever the method: every answer of a paid endpoint tells the caller's allowance.
  app.addHook('onRequest', (request, reply, done) => {
    const family = familyOf.get(request.url.split('?', 1)[0] ?? '')
    if (family) holding.limitRate(request, reply, family)
    done()
  })
  for (const operation of operations)
    await app.register(async (scope) => {
      // In a scope of its own: every request to it pays for its hooks, whatever it brings.
      if (operation.upload) await scope.register(multipart)
      addPaidRoute(scope, operation, dependencies, holding)
    })
}

function addPaidRoute(
  app: FastifyInstance,
  operation: AnyOperation,
  dependencies: PaidRequestDependencies,
  holding: Holding,
): void {
  app.post(operation.path, {
    ...(isShort(operation) ? { bodyLimit: SHORT_BODY_BYTES } : {}),
    // Before the body is read: a request without a usable key is not worth 25 MiB of upload.
    onRequest: async (request, reply) => {
      refuseDuplicateHeaders(request.raw)
      if (mayBeProbe(request.headers)) {
        // Listing services send `{}` under any name or none.
        request.raw.headers['content-type'] = 'application/json'
        return
      }
      const idempotencyKey = readIdempotencyKey(request.headers)
      if (!operation.upload) refuseOtherThanJson(request.headers)
      await holding.admission.admit(request, reply, { operation, idempotencyKey })
    },
    // The key comes before the body: what turned out to be no probe lacks it first, readable or not.
    errorHandler: (error, request) => {
      const isUnreadable = error instanceof AppError && unreadableBody.has(error.code)
      throw isUnreadable && mayBeProbe(request.headers)
        ? new AppError('missing_idempotency_key', { param: 'x-idempotency-key' })
        : error
    },
    handler: (request, reply) => answer(dependencies, operation, request, reply, holding),
  })
}

async function answer(
  dependencies: PaidRequestDependencies,
  operation: AnyOperation,
  request: FastifyRequest,
  reply: FastifyReply,
  holding: Holding,
): Promise<FastifyReply> {
  const stopInterimAnswers = sendInterimAnswers(request, reply, holding.interimAnswerMs)
  const lease = holding.admission.leaseOf(request)
  const { held, letGo } = lease?.mayBeHeld ? hold(reply, holding) : notHeld
  // What a caller who goes away leaves behind is counted until it is done with.
  lease?.retain()
  try {
    const { status, headers, body, outcome } = isProbe(request.headers, request.body)
      ? { ...renderProbeChallenge(dependencies, operation, request.id), outcome: 'probed' }
      : await withinTrace(request, () =>
          handlePaidRequest(dependencies, operation, request, {
            isPaying: lease?.isPaying ?? false,
            held,
            onBytes: (arrivedBytes) => lease?.count(arrivedBytes),
            releaseBody: () => lease?.releaseBody(),
          }),
        )
    request.outcome = outcome
    return await reply.status(status).headers(headers).send(body)
  } finally {
    lease?.release()
    stopInterimAnswers()
    letGo()
  }
}

/** Who brings no payment, or finds no place, is told at once how his job stands. */
const notHeld = { held: AbortSignal.abort(), letGo: () => undefined }

/**
 * Holds a caller for `holdMs` at most, until he goes away or the process stops. A timer of its own, since one of
 * `AbortSignal.timeout` would stay for all that time after his answer.
 */
function hold({ raw: reply }: FastifyReply, { holdMs, stopping }: Pick<Holding, 'holdMs' | 'stopping'>) {
  const ended = new AbortController()
  const end = () => ended.abort()
  if (stopping.aborted) end()
  stopping.addEventListener('abort', end)
  reply.on('close', end)
  const timer = setTimeout(end, holdMs)
  return {
    held: ended.signal,
    letGo: () => {
      clearTimeout(timer)
      reply.off('close', end)
      stopping.removeEventListener('abort', end)
    },
  }
}

/**
 * Node's fetch gives up after 300 s without a byte, and proxies sooner; `102 Processing` every now and then keeps long holds
 * alive. HTTP/1.0 knows no interim answers (RFC 9110, 15.2): its clients and proxies would take one for the answer itself.
 */
function sendInterimAnswers(
  { raw: request }: FastifyRequest,
  { raw: reply }: FastifyReply,
  everyMs: number,
): () => void {
  if (everyMs === 0 || request.httpVersion === '1.0') return () => undefined
  const timer = setInterval(() => {
    if (!reply.headersSent && !reply.destroyed) reply.writeProcessing()
  }, everyMs)
  return () => clearInterval(timer)
}
