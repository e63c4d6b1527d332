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
    /** The call that a request to `/mcp` was read as: it is counted as a request to its endpoint would be. */
    toolCall?: CountedCall
  }
}

/** A tool call and the status that its endpoint would have answered with. */
export interface CountedCall {
  /** The id of the operation, or the path of a free endpoint. */
  readonly operation: string
  status: number
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
  app.decorateRequest('toolCall')
  app.addHook('onRequest', (request, _reply, done) => {
    const { url = '' } = request.routeOptions
    const operation = idOf.get(url)
    if (operation !== undefined) request.trace = tracer.startRequest(request.id, `${request.method} ${url}`, operation)
    done()
  })
  app.addHook('onResponse', (request, reply, done) => {
    // The route's pattern, never the URL: strangers must not be able to create label values.
    const { url = 'unknown' } = request.routeOptions
    const operation = request.toolCall?.operation ?? idOf.get(url) ?? url
    const status = request.toolCall?.status ?? reply.statusCode
    const outcome = request.outcome ?? (status < 400 ? 'ok' : 'other')
    requestMetrics.recordResponse({ operation, status, outcome }, reply.elapsedTime / 1000)
    request.trace?.end({ status, outcome })
    done()
  })
}

/** Traces and counts a request as a call to an operation, which was read from its body. */
export function traceToolCall(request: FastifyRequest, tracer: Pick<Tracer, 'startRequest'>, operation: string): void {
  request.toolCall = { operation, status: 200 }
  request.trace = tracer.startRequest(request.id, `${request.method} ${request.routeOptions.url}`, operation)
}

/** Records what the endpoint of a tool call would have answered. */
export function countToolCall(request: FastifyRequest, status: number, outcome: string): void {
  if (request.toolCall) request.toolCall.status = status
  request.outcome = outcome
}

/** Runs `work` within the request's trace. */
export function withinTrace<T>(request: FastifyRequest, work: () => T): T {
  return request.trace ? request.trace.run(work) : work()
}
