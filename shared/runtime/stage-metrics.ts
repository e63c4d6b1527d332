import { Gauge, Histogram, type Registry } from 'prom-client'
import type { StageObserver } from './tracing.ts'

/** From a validation in a fraction of a millisecond to a connection held for minutes. */
const BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300]

/** Adds the durations of all stages that this process runs, and how many are under way. */
export function addStageMetrics(registry: Registry): StageObserver {
  const register = { registers: [registry] }
  const durations = new Histogram({
    name: 'farebox_stage_duration_seconds',
    help: 'How long each stage of a paid request took',
    labelNames: ['stage', 'operation'],
    buckets: BUCKETS,
    ...register,
  })
  const active = new Gauge({
    name: 'farebox_stage_active',
    help: 'Stages that are under way in this process; those in the stage `hold` are held connections',
    labelNames: ['stage'],
    ...register,
  })
  return {
    begun: (stage) => active.inc({ stage }),
    ended: (stage, operation, seconds) => {
      active.dec({ stage })
      durations.observe({ stage, operation }, seconds)
    },
  }
}
