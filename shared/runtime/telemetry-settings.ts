import { z } from 'zod'

/** Settings of what a process shows of itself, the same for API and workers. */
export const telemetrySettings = {
  /** Where Prometheus scrapes this process; nothing listens without it. */
  METRICS_PORT: z.coerce.number().int().min(0).max(65_535).optional(),
  METRICS_HOST: z.string().default('127.0.0.1'),
  /** Of an OTLP/HTTP collector, without `/v1/traces`; nothing is traced without it. */
  OTEL_EXPORTER_OTLP_ENDPOINT: z.url().optional(),
  /** Share of the requests that are traced. */
  OTEL_TRACES_SAMPLER_ARG: z.coerce.number().min(0).max(1).default(1),
  OTEL_BSP_SCHEDULE_DELAY: z.coerce.number().int().positive().default(5000),
}

const settingsSchema = z.object(telemetrySettings)

export type TelemetrySettings = z.infer<typeof settingsSchema>
