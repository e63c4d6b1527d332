import { collectDefaultMetrics, Gauge, Registry } from 'prom-client'

/** As far as it is looked at: node-postgres's own names. */
interface ConnectionPool {
  readonly totalCount: number
  readonly idleCount: number
  readonly waitingCount: number
}

/** What every process shows of itself: memory, CPU, garbage collection, the delay of its event loop. */
export function createProcessMetrics(): Registry {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  return registry
}

export function addPoolMetrics(registry: Registry, pool: ConnectionPool): void {
  const connections = new Gauge({
    name: 'farebox_database_connections',
    help: 'Connections of this process to PostgreSQL that are busy or idle, and statements that wait for one',
    labelNames: ['state'],
    registers: [registry],
    collect: () => {
      connections.set({ state: 'busy' }, pool.totalCount - pool.idleCount)
      connections.set({ state: 'idle' }, pool.idleCount)
      connections.set({ state: 'waiting' }, pool.waitingCount)
    },
  })
}
