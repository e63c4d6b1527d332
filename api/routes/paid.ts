import { once } from 'node:events'
import multipart from '@fastify/multipart'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { shrinkAdvice } from '#shared/audio/conversion.ts'
import { AppError } from '#shared/errors/app-error.ts'
import type { ErrorCode } from '#shared/errors/error-codes.ts'
import { type AnyOperation, operations } from '#shared/operations/registry.ts'
import type { ChallengeSecrets } from '#shared/payment/challenge-secrets.ts'
import { clientGroups, clientNetwork } from '#shared/runtime/client-address.ts'
import type { Admission } from '../limits/admission.ts'
import type { RateLimiter } from '../limits/rate-limits.ts'
import type { PaidResponse } from '../paid-request/answer/respond.ts'
import { handlePaidRequest, type PaidRequestHandlers } from '../paid-request/handle-paid-request.ts'
import { isHeldProbe } from '../paid-request/quote/held-probe.ts'
import { isProbe, mayBeProbe } from '../paid-request/quote/probe-challenge.ts'
import { withinTrace } from '../plugins/request-telemetry.ts'
import { UNLIMITED_ARRIVAL } from '../request/body-bytes.ts'
import type { Call } from '../request/call.ts'
import { readIdempotencyKey, refuseDuplicateHeaders, requireJson } from '../request/headers.ts'
import { createCallerHold } from './held-connection.ts'

/** Codes that parsing a body throws before the route's handler runs. */
const UNREADABLE_BODY_CODES: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['invalid_json', 'duplicate_field'])

interface PaidRouteDependencies {
  readonly handlers: PaidRequestHandlers
  readonly challengeSecrets: ChallengeSecrets
  readonly now: () => Date
}

/** Which callers are admitted, and how long their connections are held. */
export interface ConnectionLimits {
  readonly limitRate: RateLimiter
  readonly admission: Admission
  readonly holdMs: number
  /** Aborts when held callers must be answered because the process stops. */
  readonly stopping: AbortSignal
}

/** Adds one route for each paid operation. */
export async function addPaidRoutes(
  app: FastifyInstance,
  dependencies: PaidRouteDependencies,
  limits: ConnectionLimits,
): Promise<void> {
  const familyOf = new Map(operations.map(({ path, family }) => [path, family]))
  // For every method of the path: every response of a paid endpoint carries the caller's allowance.
  app.addHook('onRequest', (request, reply, done) => {
    // Not the URL of a request that has a route: encoded, absolute or with a fragment it is spelled otherwise.
    const path = request.routeOptions.url ?? request.url.split('?', 1)[0] ?? ''
    const family = familyOf.get(path)
    if (family) limits.limitRate(request, reply, family)
    done()
  })
  for (const operation of operations)
    await app.register(async (scope) => {
      // In a separate scope: the multipart hooks run for every request of their scope.
      if (operation.upload) await scope.register(multipart)
      addPaidRoute(scope, operation, dependencies, limits)
    })
}

function addPaidRoute(
  app: FastifyInstance,
  operation: AnyOperation,
  dependencies: PaidRouteDependencies,
  limits: ConnectionLimits,
): void {
  app.post(operation.path, {
    ...(operation.bodyLimitBytes === null ? {} : { bodyLimit: operation.bodyLimitBytes }),
    // Before the body is read: a request without a usable key must not upload 25 MiB first.
    onRequest: async (request, reply) => {
      refuseDuplicateHeaders(request.raw)
      if (mayBeProbe(request.headers)) {
        // Listing services send `{}` with any content type or none.
        request.raw.headers['content-type'] = 'application/json'
        return
      }
      const idempotencyKey = readIdempotencyKey(request.headers)
      if (!operation.upload) requireJson(request.headers)
      await limits.admission.admit(request, reply, { operation, idempotencyKey })
    },
    // The key is checked before the body: a request that turns out not to be a probe reports the missing key first.
    errorHandler: (error, request) => {
      const isUnreadable = error instanceof AppError && UNREADABLE_BODY_CODES.has(error.code)
      throw isUnreadable && mayBeProbe(request.headers)
        ? new AppError('missing_idempotency_key', { param: 'x-idempotency-key' })
        : withAdvice(error, operation)
    },
    handler: (request, reply) => respondTo(dependencies, operation, request, reply, limits),
  })
}

/** Adds to the refusal of a body that is too large how to make a recording smaller. */
function withAdvice(error: unknown, { upload }: AnyOperation): unknown {
  if (!upload || !(error instanceof AppError) || error.code !== 'body_too_large') return error
  return new AppError(error.code, { message: `${error.message} ${shrinkAdvice(upload)}`, cause: error })
}

async function respondTo(
  dependencies: PaidRouteDependencies,
  operation: AnyOperation,
  request: FastifyRequest,
  reply: FastifyReply,
  limits: ConnectionLimits,
): Promise<FastifyReply> {
  const hasPriority = limits.admission.reservationOf(request)?.hasPriority ?? false
  const { status, headers, body, outcome } = isProbe(request.headers, request.body)
    ? await answerProbe(dependencies, operation, request, reply, limits)
    : await answerCall(dependencies.handlers, operation, { call: request, request, reply, hasPriority }, limits)
  request.outcome = outcome
  return await reply.status(status).headers(headers).send(body)
}

/** Answers a probe; that of the operator's preflight is held first as long as a call may be. */
async function answerProbe(
  dependencies: PaidRouteDependencies,
  operation: AnyOperation,
  request: FastifyRequest,
  reply: FastifyReply,
  limits: ConnectionLimits,
) {
  if (isHeldProbe(request.headers, dependencies.challengeSecrets, dependencies.now())) {
    const hold = createCallerHold(request, reply, limits)
    const ended = hold.holdIn(limits.admission.holdWithoutWork(request, 'probes of the preflight'))
    if (!ended.aborted) await once(ended, 'abort')
    hold.release()
  }
  return { ...dependencies.handlers.quotes.renderProbeChallenge(operation, request.id), outcome: 'probed' }
}

/** A call and the connection that it arrived on. */
export interface ArrivedCall {
  readonly call: Call
  /** The request that the call is, or was read from. */
  readonly request: FastifyRequest
  readonly reply: FastifyReply
  readonly hasPriority: boolean
}

/** Answers a call to an operation; its caller is held meanwhile. */
export async function answerCall(
  handlers: PaidRequestHandlers,
  operation: AnyOperation,
  { call, request, reply, hasPriority }: ArrivedCall,
  limits: Omit<ConnectionLimits, 'limitRate'>,
): Promise<PaidResponse> {
  const reservation = limits.admission.reservationOf(request)
  const hold = createCallerHold(request, reply, limits)
  // The work counts until it is done, even if its caller disconnects.
  reservation?.retain()
  try {
    return await withinTrace(request, () =>
      handlePaidRequest(handlers, operation, call, {
        client: clientGroups(request.ip),
        clientNetwork: clientNetwork(request.ip),
        hasPriority,
        arrival: reservation ?? UNLIMITED_ARRIVAL,
        startWaiting: (job) => hold.holdIn(limits.admission.hold(request, job)),
        startWaitingForTurn: (payer) => hold.holdIn(limits.admission.holdWithoutWork(request, `permits of ${payer}`)),
        releaseBody: () => {
          request.body = undefined
          reservation?.releaseBody()
        },
      }),
    )
  } finally {
    reservation?.release()
    hold.release()
  }
}
