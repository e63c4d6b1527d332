import type { Tracer } from '@opentelemetry/api'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { resourceFromAttributes } from '@opentelemetry/resources'
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace'
import { withDeadline } from '#shared/runtime/with-deadline.ts'

export interface SpanExporterOptions {
  /** URL of the collector, without the signal's path. */
  readonly endpoint: string
  readonly serviceName: string
  /** Share of the requests that are traced, 0 to 1; a worker follows the decision of the API. */
  readonly sampledShare: number
}

export interface SpanExporter {
  readonly spans: Tracer
  close(): Promise<void>
}

/** Soon enough for a person who looks for the trace of a call that just ended. */
const EXPORT_EVERY_MS = 1000

/** A collector that does not respond must not keep a process from ending. */
const LAST_EXPORT_MS = 2000

/**
 * Opens the OpenTelemetry SDK, which sends spans as OTLP over HTTP. Its provider is not registered globally, so
 * libraries export nothing through it. Spans that the collector rejects are dropped.
 */
export function openSpanExporter(options: SpanExporterOptions): SpanExporter {
  const provider = new TracerProvider({
    resource: resourceFromAttributes({ 'service.name': options.serviceName, 'process.pid': process.pid }),
    sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(options.sampledShare) }),
    spanProcessors: [
      new BatchSpanProcessor({
        exporter: new OTLPTraceExporter({ url: `${options.endpoint.replace(/\/$/, '')}/v1/traces` }),
        scheduledDelayMillis: EXPORT_EVERY_MS,
      }),
    ],
  })
  return {
    spans: provider.getTracer('farebox'),
    close: () =>
      withDeadline(
        LAST_EXPORT_MS,
        provider.shutdown().catch(() => undefined),
        () => undefined,
      ),
  }
}
