import { z } from 'zod'

/** Telemetry settings of API and workers. */
export const telemetrySettings = {
  /** Port that Prometheus scrapes; no server is started without it. */
  METRICS_PORT: z.coerce.number().int().min(0).max(65_535).optional(),
  METRICS_HOST: z.string().default('127.0.0.1'),
  /** URL of an OTLP/HTTP collector, without `/v1/traces`; nothing is traced without it. */
  OTEL_EXPORTER_OTLP_ENDPOINT: z.url().optional(),
  /** Share of the requests that are traced. */
  OTEL_TRACES_SAMPLER_ARG: z.coerce.number().min(0).max(1).default(1),
}

const settingsSchema = z.object(telemetrySettings)

export type TelemetrySettings = z.infer<typeof settingsSchema>
