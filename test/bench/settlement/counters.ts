import { subscribe } from 'node:diagnostics_channel'
import pg from 'pg'

/** Counts of this process so far: calls to the node, statements to PostgreSQL, processor time. */
export interface Counts {
  readonly rpcCalls: number
  readonly sqlStatements: number
  readonly cpuMs: number
}

/**
 * Starts to count where every call passes through. A proxy would cost more than the measured work.
 */
export function startCounting(): () => Counts {
  let [rpcCalls, sqlStatements] = [0, 0]
  // Of undici, which the SDK uses as `fetch`.
  subscribe('undici:request:create', () => {
    rpcCalls += 1
  })
  const query = Reflect.get(pg.Client.prototype, 'query') as (...call: unknown[]) => unknown
  Reflect.set(pg.Client.prototype, 'query', function countQuery(this: pg.Client, ...call: unknown[]) {
    sqlStatements += 1
    return query.apply(this, call)
  })
  return () => {
    const { user, system } = process.cpuUsage()
    return { rpcCalls, sqlStatements, cpuMs: (user + system) / 1000 }
  }
}

export function difference(later: Counts, earlier: Counts): Counts {
  return {
    rpcCalls: later.rpcCalls - earlier.rpcCalls,
    sqlStatements: later.sqlStatements - earlier.sqlStatements,
    cpuMs: later.cpuMs - earlier.cpuMs,
  }
}
