import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { AnyOperation } from '#shared/operations/registry.ts'
import type { RequestTrace, Tracer } from '#shared/runtime/tracing.ts'
import type { RequestMetrics } from '../telemetry/metrics.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The kind of response, from a bounded set: an error code, or the kind of success. */
    outcome?: string
    /** Set for paid operations only. */
    trace?: RequestTrace
  }
}

interface Dependencies {
  readonly operations: readonly Pick<AnyOperation, 'id' | 'path'>[]
  readonly tracer: Tracer
  readonly requestMetrics: RequestMetrics
}

/** Counts every response, and traces each request to a paid operation from its head to the end of the response. */
export function addRequestTelemetry(app: FastifyInstance, { operations, tracer, requestMetrics }: Dependencies): void {
  const idOf = new Map(operations.map(({ path, id }) => [path, id]))
  app.decorateRequest('outcome')
  app.decorateRequest('trace')
  app.addHook('onRequest', (request, _reply, done) => {
    const { url = '' } = request.routeOptions
    const operation = idOf.get(url)
    if (operation !== undefined) request.trace = tracer.startRequest(request.id, `${request.method} ${url}`, operation)
    done()
  })
  app.addHook('onResponse', (request, reply, done) => {
    // The route's pattern, never the URL: strangers must not be able to create label values.
    const { url = 'unknown' } = request.routeOptions
    const operation = idOf.get(url) ?? url
    const status = reply.statusCode
    const outcome = request.outcome ?? (status < 400 ? 'ok' : 'other')
    requestMetrics.recordResponse({ operation, status, outcome }, reply.elapsedTime / 1000)
    request.trace?.end({ status, outcome })
    done()
  })
}

/** Runs `work` within the request's trace. */
export function withinTrace<T>(request: FastifyRequest, work: () => T): T {
  return request.trace ? request.trace.run(work) : work()
}
