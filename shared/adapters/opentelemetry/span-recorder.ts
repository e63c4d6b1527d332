import { type Context, ROOT_CONTEXT, type Span, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { resourceFromAttributes } from '@opentelemetry/resources'
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace'
import { AppError } from '#shared/errors/app-error.ts'
import type { RecordedSpan, SpanAttributes, SpanRecorder } from '#shared/runtime/tracing.ts'

export interface SpanRecorderOptions {
  /** Of the collector, without the signal's path. */
  readonly endpoint: string
  readonly serviceName: string
  /** Share of the requests that are traced, 0 to 1; whoever goes on with one decides as its beginning did. */
  readonly sampledShare: number
  readonly exportEveryMs: number
}

/** An unanswering collector must not keep a process from ending. */
const LAST_EXPORT_MS = 2000

/**
 * Records spans through the OpenTelemetry SDK and sends them as OTLP over HTTP. Nothing is registered globally: what is not given
 * this recorder is not traced. Spans that a collector does not take are dropped.
 */
export function createSpanRecorder(options: SpanRecorderOptions): SpanRecorder {
  const provider = new TracerProvider({
    resource: resourceFromAttributes({ 'service.name': options.serviceName, 'process.pid': process.pid }),
    sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(options.sampledShare) }),
    spanProcessors: [
      new BatchSpanProcessor({
        exporter: new OTLPTraceExporter({ url: `${options.endpoint.replace(/\/$/, '')}/v1/traces` }),
        scheduledDelayMillis: options.exportEveryMs,
      }),
    ],
  })
  const tracer = provider.getTracer('farebox')
  const start: StartSpan = (name, kind, attributes, parent, startTime) => {
    const named = { kind, attributes: namedAttributes(attributes), ...(startTime ? { startTime } : {}) }
    return recorded(tracer.startSpan(name, named, parent), start)
  }
  return {
    startRequest: (name, attributes) => start(name, SpanKind.SERVER, attributes, ROOT_CONTEXT),
    startJob: (traceparent, name, attributes, startedAt) =>
      start(name, SpanKind.CONSUMER, attributes, contextOf(traceparent), startedAt),
    close: async () => {
      const { promise: late, resolve } = Promise.withResolvers<void>()
      const timer = setTimeout(resolve, LAST_EXPORT_MS)
      await Promise.race([provider.shutdown().catch(() => undefined), late])
      clearTimeout(timer)
    },
  }
}

type StartSpan = (
  name: string,
  kind: SpanKind,
  attributes: SpanAttributes,
  parent: Context,
  startTime?: Date,
) => RecordedSpan

function recorded(span: Span, start: StartSpan): RecordedSpan {
  const { traceId, spanId, traceFlags } = span.spanContext()
  return {
    traceId,
    traceparent: `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`,
    startChild: (name, attributes) => start(name, SpanKind.INTERNAL, attributes, trace.setSpan(ROOT_CONTEXT, span)),
    describe: (attributes) => void span.setAttributes(namedAttributes(attributes)),
    end: (thrown) => {
      if (thrown !== undefined) {
        span.setStatus({ code: SpanStatusCode.ERROR })
        // Messages may hold what a caller sent.
        span.setAttribute('error.type', thrown instanceof AppError ? thrown.code : nameOf(thrown))
      }
      span.end()
    },
  }
}

function nameOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.name : typeof thrown
}

/** `requestId` is exported as `farebox.request_id`. */
function namedAttributes(attributes: SpanAttributes): Record<string, string | number> {
  const entries = Object.entries(attributes) as [string, string | number | undefined][]
  return Object.fromEntries(
    entries.flatMap(([key, value]) =>
      value === undefined
        ? []
        : [[`farebox.${key.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)}`, value]],
    ),
  )
}

const TRACEPARENT = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/

/** The parent that a job's row names, or none: then the work begins a trace of its own. */
function contextOf(traceparent: string | null): Context {
  const [, traceId, spanId, flags] = TRACEPARENT.exec(traceparent ?? '') ?? []
  if (traceId === undefined || spanId === undefined || flags === undefined) return ROOT_CONTEXT
  const parent = { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true }
  return trace.setSpanContext(ROOT_CONTEXT, parent)
}
