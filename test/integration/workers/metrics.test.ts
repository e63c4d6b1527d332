import { Registry } from 'prom-client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type MetricsServer, serveMetrics } from '#shared/runtime/metrics-server.ts'
import { createRouter } from '../../../workers/providers/route.ts'
import { addDeploymentMetrics } from '../../../workers/telemetry/deployment-metrics.ts'

const router = createRouter([{ name: 'first', serves: ['model'], priority: 0, weight: 1 }], {
  now: () => new Date(),
  random: Math.random,
  maximumTimeoutMs: 1000,
  failuresToOpen: 1,
})
let server: MetricsServer
beforeAll(async () => {
  const registry = new Registry()
  addDeploymentMetrics(registry, router)
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

test('the metrics server serves /metrics and /healthz only', async () => {
  expect((await fetch(`http://127.0.0.1:${server.port}/healthz`)).status).toBe(200)
  expect((await fetch(`http://127.0.0.1:${server.port}/`)).status).toBe(404)
})
