import { Registry } from 'prom-client'
import { expect, it } from 'vitest'
import { addNodeMetrics } from '#shared/runtime/process-metrics.ts'

const up = { host: 'one.example', isAnswering: true }
const down = { host: 'one.example', isAnswering: false }

it.each([
  [[up, down], 0],
  [[down, up], 0],
  [[up, up], 1],
])('reports two URLs of one host as answering only while both answer', async (states, value) => {
  const registry = new Registry()
  addNodeMetrics(registry, () => states)
  expect(await registry.metrics()).toContain(`farebox_rpc_node_answering{node="one.example"} ${value}\n`)
})
