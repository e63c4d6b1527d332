import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { AnyOperation } from '#shared/operations/registry.ts'
import type { RequestTrace, Tracer } from '#shared/runtime/tracing.ts'
import type { RequestMetrics } from '../metrics.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** What the answer is, in one word of a bounded set: the code of a failure, or how a success came about. */
    outcome?: string
    /** Of a paid operation. */
    trace?: RequestTrace
  }
}

interface Dependencies {
  readonly operations: readonly Pick<AnyOperation, 'id' | 'path'>[]
  readonly tracer: Tracer
  readonly requestMetrics: RequestMetrics
}

/** Counts every answer, and traces each request to a paid operation from its head to the end of its answer. */
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
    // A route's pattern and never the URL: labels must not grow with what strangers ask for.
    const { url = 'unknown' } = request.routeOptions
    const operation = idOf.get(url) ?? url
    const status = reply.statusCode
    const outcome = request.outcome ?? (status < 400 ? 'ok' : 'other')
    requestMetrics.answered({ operation, status, outcome }, reply.elapsedTime / 1000)
    request.trace?.end({ status, outcome })
    done()
  })
}

/** Everything that `work` starts belongs to the trace of the request. */
export function withinTrace<T>(request: FastifyRequest, work: () => T): T {
  return request.trace ? request.trace.run(work) : work()
}
