import { collectDefaultMetrics, Gauge, Registry } from 'prom-client'

/** The members of node-postgres's pool that are read here. */
interface ConnectionPool {
  readonly totalCount: number
  readonly idleCount: number
  readonly waitingCount: number
}

/** Creates a registry with the metrics of every process: memory, CPU, garbage collection, event loop delay. */
export function createProcessMetrics(): Registry {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  return registry
}

/** Adds the connections of this process's pool. */
export function addPoolMetrics(registry: Registry, pool: ConnectionPool): void {
  const connections = new Gauge({
    name: 'farebox_database_connections',
    help: 'Busy and idle PostgreSQL connections of this process, and statements waiting for a connection',
    labelNames: ['state'],
    registers: [registry],
    collect: () => {
      connections.set({ state: 'busy' }, pool.totalCount - pool.idleCount)
      connections.set({ state: 'idle' }, pool.idleCount)
      connections.set({ state: 'waiting' }, pool.waitingCount)
    },
  })
}
