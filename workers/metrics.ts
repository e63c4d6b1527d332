import { createServer } from 'node:http'
import { Gauge, Registry } from 'prom-client'
import type { Router } from './providers/route.ts'

const CIRCUITS = ['closed', 'half_open', 'open'] as const

/** What this worker process shows of itself: the health of each deployment, as its own router sees it. */
export function createMetrics({ router }: { router: Pick<Router, 'states'> }): Registry {
  const registry = new Registry()
  const register = { registers: [registry] }
  const circuit = new Gauge({
    name: 'farebox_deployment_circuit',
    help: '1 for the state that the circuit of a deployment is in',
    labelNames: ['deployment', 'state'],
    ...register,
    // Read at each scrape: the router knows it all at any moment.
    collect: () => {
      for (const { name, circuit: present } of router.states())
        for (const state of CIRCUITS) circuit.set({ deployment: name, state }, state === present ? 1 : 0)
    },
  })
  const activeCalls = new Gauge({
    name: 'farebox_deployment_active_calls',
    help: 'Calls to a deployment that are under way',
    labelNames: ['deployment'],
    ...register,
    collect: () =>
      router.states().forEach(({ name, activeCalls: count }) => activeCalls.set({ deployment: name }, count)),
  })
  const recentCalls = new Gauge({
    name: 'farebox_deployment_recent_calls',
    help: 'Calls to a deployment begun in the last 60 seconds',
    labelNames: ['deployment'],
    ...register,
    collect: () =>
      router.states().forEach(({ name, recentCalls: count }) => recentCalls.set({ deployment: name }, count)),
  })
  return registry
}

export interface MetricsServer {
  readonly port: number
  close(): Promise<void>
}

/**
 * Serves `GET /metrics` for Prometheus and `GET /healthz`, which says that this process lives and nothing about dependencies;
 * anything else is a 404. Keep the port off the public network.
 */
export async function serveMetrics(registry: Registry, host: string, port: number): Promise<MetricsServer> {
  const server = createServer((request, response) => {
    if (request.method === 'GET' && request.url === '/healthz') {
      response.writeHead(200, { 'content-type': 'application/json' }).end('{"status":"ok"}')
      return
    }
    if (request.method !== 'GET' || request.url !== '/metrics') {
      response.writeHead(404).end()
      return
    }
    registry.metrics().then(
      (text) => response.writeHead(200, { 'content-type': registry.contentType }).end(text),
      () => response.writeHead(500).end(),
    )
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, resolve)
  })
  const address = server.address()
  return {
    port: address !== null && typeof address === 'object' ? address.port : port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
