import { Gauge, type Registry } from 'prom-client'
import type { ModelWatch, WatchedModel } from '../providers/watch-models.ts'

/** Adds what the vendors last said about the deployments' models; nothing for those that do not say it. */
export function addModelMetrics(registry: Registry, watch: Pick<ModelWatch, 'models'>): void {
  const add = (name: string, help: string, valueOf: (model: WatchedModel) => number | undefined) => {
    const gauge = new Gauge({
      name,
      help,
      labelNames: ['deployment'],
      registers: [registry],
      collect: () => {
        gauge.reset()
        for (const model of watch.models()) {
          const value = valueOf(model)
          if (value !== undefined) gauge.set({ deployment: model.deployment }, value)
        }
      },
    })
  }
  add('farebox_deployment_model_listed', 'Whether the vendor has the model of a deployment', ({ status }) =>
    status.outcome === 'unknown' ? undefined : Number(status.outcome === 'listed'),
  )
  add(
    'farebox_deployment_model_retirement_timestamp_seconds',
    'When the vendor retires the model of a deployment, as announced',
    ({ retiresAt }) => (retiresAt === undefined ? undefined : retiresAt.getTime() / 1000),
  )
  add('farebox_deployment_voices_missing', 'Voices of a deployment that its account does not have', ({ status }) =>
    status.outcome === 'listed' ? status.missingVoices?.length : undefined,
  )
}
