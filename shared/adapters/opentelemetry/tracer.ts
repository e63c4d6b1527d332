import {
  type Context,
  context,
  createContextKey,
  type Tracer as OpenTelemetryTracer,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { AppError } from '#shared/errors/app-error.ts'
import type { RequestOrigin, SpanAttributes, StageObserver, Tracer } from '#shared/runtime/tracing.ts'

const TRACEPARENT = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/

export interface TracerOptions {
  /** Starts the spans; without it nothing is exported, while requests are still known and stages measured. */
  readonly spans: OpenTelemetryTracer | null
  readonly observer: StageObserver
  /** Exports the remaining spans. */
  readonly close?: () => Promise<void>
}

interface Request extends RequestOrigin {
  readonly operation: string
}

const REQUEST = createContextKey('farebox request')

/**
 * Creates the tracer of a process. The request travels in the active OpenTelemetry context, together with its span.
 * Only this file sets attributes of spans, so nothing outside `SpanAttributes` is exported.
 */
export function createTracer({ spans, observer, close = async () => undefined }: TracerOptions): Tracer {
  // A later registration in the same process has no effect.
  context.setGlobalContextManager(new AsyncLocalStorageContextManager())
  return {
    startRequest: (requestId, name, operation) => {
      const span = spans && startServerSpan(spans, name, { requestId, operation })
      const active = contextOf({ requestId, operation, traceparent: span && traceparentOf(span) }, span)
      return {
        traceId: span?.spanContext().traceId ?? null,
        run: (work) => context.with(active, work),
        end: (ending) => span?.setAttributes(exported(ending)).end(),
      }
    },
    continueRequest: (job, work) => {
      const { origin, operation, publicModel: model, waitedMs } = job
      const request = { ...origin, operation }
      observer.begun('queue')
      observer.ended('queue', operation, waitedMs / 1000)
      if (!spans) return context.with(contextOf(request, null), work)
      const requestId = origin.requestId ?? undefined
      const attributes = exported({ requestId, jobId: job.id, operation, model, fence: job.fence.toString() })
      const options = { kind: SpanKind.CONSUMER, attributes }
      const parent = parentContext(origin.traceparent)
      spans.startSpan('queue', { ...options, startTime: new Date(Date.now() - waitedMs) }, parent).end()
      const span = spans.startSpan('run job', options, parent)
      return context.with(contextOf(request, span), () => endAfter(span, work))
    },
    stage: async (stage, work, attributes = {}) => {
      const active = context.active()
      const startedAt = performance.now()
      observer.begun(stage)
      try {
        if (!spans || !trace.getSpan(active)) return await work()
        const span = spans.startSpan(stage, { attributes: exported(attributes) }, active)
        return await context.with(trace.setSpan(active, span), () => endAfter(span, work))
      } finally {
        observer.ended(stage, requestIn(active)?.operation ?? 'none', (performance.now() - startedAt) / 1000)
      }
    },
    describe: (attributes) => void trace.getActiveSpan()?.setAttributes(exported(attributes)),
    current: () => {
      const active = context.active()
      const request = requestIn(active)
      if (!request) return null
      const { requestId, traceparent } = request
      return { requestId, traceparent, traceId: trace.getSpan(active)?.spanContext().traceId ?? null }
    },
    close,
  }
}

function startServerSpan(spans: OpenTelemetryTracer, name: string, attributes: SpanAttributes): Span {
  return spans.startSpan(name, { kind: SpanKind.SERVER, attributes: exported(attributes) }, ROOT_CONTEXT)
}

function contextOf(request: Request, span: Span | null): Context {
  const active = ROOT_CONTEXT.setValue(REQUEST, request)
  return span ? trace.setSpan(active, span) : active
}

function requestIn(active: Context): Request | undefined {
  return active.getValue(REQUEST) as Request | undefined
}

/**
 * Ends the span with its work. Of an error only the code or the type is kept, since messages may quote a caller's
 * input.
 */
async function endAfter<T>(span: Span, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    span.setStatus({ code: SpanStatusCode.ERROR })
    span.setAttribute('error.type', error instanceof AppError ? error.code : typeNameOf(error))
    throw error
  } finally {
    span.end()
  }
}

function typeNameOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.name : typeof thrown
}

/** Exports `requestId` as `farebox.request_id`. */
function exported(attributes: { [Name in keyof SpanAttributes]: SpanAttributes[Name] | undefined }): Record<
  string,
  string | number
> {
  const named: Record<string, string | number> = {}
  for (const [name, value] of Object.entries(attributes))
    if (value !== undefined)
      named[`farebox.${name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)}`] = value
  return named
}

/** Writes the W3C `traceparent` of a span. */
function traceparentOf(span: Span): string {
  const { traceId, spanId, traceFlags } = span.spanContext()
  return `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`
}

/** Reads the parent that a job's row names. Without a valid one the work starts a new trace. */
function parentContext(traceparent: string | null): Context {
  const [, traceId, spanId, flags] = TRACEPARENT.exec(traceparent ?? '') ?? []
  if (traceId === undefined || spanId === undefined || flags === undefined) return ROOT_CONTEXT
  const parent = { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true }
  return trace.setSpanContext(ROOT_CONTEXT, parent)
}
