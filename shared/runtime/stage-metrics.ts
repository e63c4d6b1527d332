import { Gauge, Histogram, type Registry } from 'prom-client'
import type { Stage, StageObserver } from './tracing.ts'

/** Covers a validation of a fraction of a millisecond as well as a connection held for minutes. */
const BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300]

/** Adds the durations of the stages that this process runs, and the number in progress. */
export function addStageMetrics(registry: Registry): StageObserver {
  const register = { registers: [registry] }
  const durations = new Histogram({
    name: 'farebox_stage_duration_seconds',
    help: 'Duration of each stage of a paid request',
    labelNames: ['stage', 'operation'],
    buckets: BUCKETS,
    ...register,
  })
  const active = new Gauge({
    name: 'farebox_stage_active',
    help: 'Stages in progress in this process; the stage `hold` counts held connections',
    labelNames: ['stage'],
    ...register,
  })
  // Both labels are from bounded sets. Looking a metric up anew each time costs more than counting.
  const activeOf = remembered((stage: Stage) => active.labels({ stage }))
  const durationsOf = remembered((stage: Stage) =>
    remembered((operation: string) => durations.labels({ stage, operation })),
  )
  return {
    begun: (stage) => activeOf(stage).inc(),
    ended: (stage, operation, seconds) => {
      activeOf(stage).dec()
      durationsOf(stage)(operation).observe(seconds)
    },
  }
}

function remembered<Key, Value>(create: (key: Key) => Value): (key: Key) => Value {
  const values = new Map<Key, Value>()
  return (key) => {
    const value = values.get(key) ?? create(key)
    if (!values.has(key)) values.set(key, value)
    return value
  }
}
