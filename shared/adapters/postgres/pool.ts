import pg from 'pg'
import { PreparingClient } from './preparing-client.ts'

/** Anything that runs a statement: the pool, or one client inside a transaction. */
export type Sql = Pick<pg.ClientBase, 'query'>
export type Pool = pg.Pool

/** Long enough for a restart of the server to be ridden out by retries, short enough for a caller to get a 503. */
const CONNECT_TIMEOUT_MS = 5000
/** No statement of the service itself is long; one that hangs must not hold a connection for good. */
const STATEMENT_TIMEOUT_MS = 15_000

/** A pool over `connectionString`. A lost idle connection is logged by `onError` and replaced at the next use. */
export function createPool(options: {
  connectionString: string
  maximumConnections: number
  applicationName: string
  onError: (error: Error) => void
  /** For reports over the whole ledger; 15 s when left out. */
  statementTimeoutMs?: number
}): Pool {
  const { statementTimeoutMs = STATEMENT_TIMEOUT_MS } = options
  const pool = new pg.Pool({
    Client: PreparingClient,
    connectionString: options.connectionString,
    max: options.maximumConnections,
    application_name: options.applicationName,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    statement_timeout: statementTimeoutMs,
    query_timeout: statementTimeoutMs + CONNECT_TIMEOUT_MS,
    keepAlive: true,
  })
  pool.on('error', options.onError)
  // pg also emits the loss of a connection that is in use, where the pool does not listen. Whoever waits for its statement is
  // told by that; the emitted error would end the process.
  pool.on('connect', (client) => client.on('error', () => undefined))
  return pool
}
