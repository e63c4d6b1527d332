import type { Registry } from 'prom-client'
import { addStageMetrics } from '#shared/runtime/stage-metrics.ts'
import type { TelemetrySettings } from '#shared/runtime/telemetry-settings.ts'
import type { Tracer } from '#shared/runtime/tracing.ts'
import { createTracer } from './tracer.ts'

/** Opens the tracer of a process: it measures into `registry`, and exports spans when the settings name a collector. */
export async function openTracer(
  settings: Pick<TelemetrySettings, 'OTEL_EXPORTER_OTLP_ENDPOINT' | 'OTEL_TRACES_SAMPLER_ARG'>,
  serviceName: string,
  registry: Registry,
): Promise<Tracer> {
  const observer = addStageMetrics(registry)
  const { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint } = settings
  if (endpoint === undefined) return createTracer({ spans: null, observer })
  // The SDK is loaded only where it is used.
  const { openSpanExporter } = await import('./open-span-exporter.ts')
  const exporter = openSpanExporter({
    endpoint,
    serviceName,
    sampledShare: settings.OTEL_TRACES_SAMPLER_ARG,
  })
  return createTracer({ ...exporter, observer })
}
