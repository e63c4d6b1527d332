import type { Registry } from 'prom-client'
import { addStageMetrics } from '#shared/runtime/stage-metrics.ts'
import type { TelemetrySettings } from '#shared/runtime/telemetry-settings.ts'
import { createTracer, type Tracer } from '#shared/runtime/tracing.ts'

/** The tracer of one process: exporting when the settings name a collector, and measuring into `registry` in any case. */
export async function openTracer(
  settings: Pick<
    TelemetrySettings,
    'OTEL_EXPORTER_OTLP_ENDPOINT' | 'OTEL_TRACES_SAMPLER_ARG' | 'OTEL_BSP_SCHEDULE_DELAY'
  >,
  serviceName: string,
  registry: Registry,
): Promise<Tracer> {
  const observer = addStageMetrics(registry)
  const { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint } = settings
  if (endpoint === undefined) return createTracer(null, observer)
  // Loaded only where it is used.
  const { createSpanRecorder } = await import('./span-recorder.ts')
  const recorder = createSpanRecorder({
    endpoint,
    serviceName,
    sampledShare: settings.OTEL_TRACES_SAMPLER_ARG,
    exportEveryMs: settings.OTEL_BSP_SCHEDULE_DELAY,
  })
  return createTracer(recorder, observer)
}
