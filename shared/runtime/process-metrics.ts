import { totalmem } from 'node:os'
import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client'

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
  const limit = new Gauge({
    name: 'farebox_memory_limit_bytes',
    help: 'Memory that this process may use: the limit of its container, or the memory of the machine',
    registers: [registry],
  })
  // 0 when nothing limits the process.
  limit.set(Math.min(process.constrainedMemory() || Number.POSITIVE_INFINITY, totalmem()))
  return registry
}

/** What is known of a node of the payment network. */
interface NodeState {
  readonly host: string
  readonly isAnswering: boolean
  readonly headAgeMs: number | null
  readonly poolRefusals: number
}

/**
 * Adds what each node of `RPC_URL` did when this process last asked it. Two URLs of one host, with keys of their own,
 * share the values of the worse one.
 */
export function addNodeMetrics(registry: Registry, readStates: () => readonly NodeState[]): void {
  const answering = new Gauge({
    name: 'farebox_rpc_node_answering',
    help: '1 while a node of RPC_URL answers this process, 0 since it last failed',
    labelNames: ['node'],
    registers: [registry],
    collect: () => {
      for (const { host, isAnswering } of readStates().toSorted(
        (one, other) => Number(other.isAnswering) - Number(one.isAnswering),
      ))
        answering.set({ node: host }, isAnswering ? 1 : 0)
    },
  })
  const headAge = new Gauge({
    name: 'farebox_rpc_node_head_age_seconds',
    help: 'Age of the newest block of a node of RPC_URL, as this process last saw it',
    labelNames: ['node'],
    registers: [registry],
    collect: () => {
      for (const { host, headAgeMs } of readStates().toSorted(
        (one, other) => (one.headAgeMs ?? 0) - (other.headAgeMs ?? 0),
      ))
        if (headAgeMs !== null) headAge.set({ node: host }, headAgeMs / 1000)
    },
  })
  const refusals: Counter = new Counter({
    name: 'farebox_rpc_node_pool_refusals_total',
    help: 'Transactions that a node of RPC_URL refused to this process because its pool had no room for them',
    labelNames: ['node'],
    registers: [registry],
    collect: () => {
      refusals.reset()
      for (const { host, poolRefusals } of readStates()) refusals.inc({ node: host }, poolRefusals)
    },
  })
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
