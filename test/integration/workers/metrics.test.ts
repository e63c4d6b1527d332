import { Registry } from 'prom-client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type MetricsServer, serveMetrics } from '#shared/runtime/metrics-server.ts'
import { createRouter } from '../../../workers/providers/route.ts'
import type { WatchedModel } from '../../../workers/providers/watch-models.ts'
import { addDeploymentMetrics } from '../../../workers/telemetry/deployment-metrics.ts'
import { addModelMetrics } from '../../../workers/telemetry/model-metrics.ts'

const router = createRouter([{ name: 'first', serves: ['model'], priority: 0, weight: 1 }], {
  now: () => new Date(),
  random: Math.random,
  maximumTimeoutMs: 1000,
  failuresToOpen: 1,
})
let models: WatchedModel[] = []
let server: MetricsServer
beforeAll(async () => {
  const registry = new Registry()
  addDeploymentMetrics(registry, router)
  addModelMetrics(registry, { models: () => models })
  server = await serveMetrics(registry, '127.0.0.1', 0)
})
afterAll(() => server.close())

const scrape = async () => (await fetch(`http://127.0.0.1:${server.port}/metrics`)).text()

test('a healthy deployment has a closed circuit', async () => {
  expect(await scrape()).toContain('farebox_deployment_circuit{deployment="first",state="closed"} 1')
})

test('a failing deployment has an open circuit and a count of its calls', async () => {
  for (const slot of router.candidates('model'))
    await slot.run(
      async () => ({ outcome: 'failed', certainty: 'definite', code: 'provider_unavailable', reason: 'test' }),
      'payer',
    )
  const text = await scrape()
  expect(text).toContain('farebox_deployment_circuit{deployment="first",state="open"} 1')
  expect(text).toContain('farebox_deployment_recent_calls{deployment="first"} 1')
  expect(text).toContain('farebox_deployment_active_calls{deployment="first"} 0')
})

test('what vendors say of models is measured, and nothing where they do not say it', async () => {
  models = [
    { deployment: 'a', status: { outcome: 'listed', missingVoices: ['x', 'y'] } },
    { deployment: 'b', status: { outcome: 'missing' }, retiresAt: new Date(1_790_000_000_000) },
    { deployment: 'c', status: { outcome: 'unknown', reason: 'HTTP 500' } },
  ]
  const lines = (await scrape()).split('\n').filter((line) => /^farebox_deployment_(model|voices)/.test(line))
  expect(lines).toEqual([
    'farebox_deployment_model_listed{deployment="a"} 1',
    'farebox_deployment_model_listed{deployment="b"} 0',
    'farebox_deployment_model_retirement_timestamp_seconds{deployment="b"} 1790000000',
    'farebox_deployment_voices_missing{deployment="a"} 2',
  ])
  models = []
  expect(await scrape()).not.toContain('farebox_deployment_model_listed{')
})

test('the metrics server serves /metrics and /healthz only', async () => {
  expect((await fetch(`http://127.0.0.1:${server.port}/healthz`)).status).toBe(200)
  expect((await fetch(`http://127.0.0.1:${server.port}/`)).status).toBe(404)
})
