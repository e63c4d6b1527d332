import pg from 'pg'

/**
 * A statement with parameters. PostgreSQL parses and plans it once for each connection, under its name: one name for
 * each text. Its result must keep its shape while processes run, even across migrations, so no statement returns `*`.
 */
export interface PreparedStatement {
  readonly name: string
  readonly text: string
  readonly values: readonly unknown[]
}

/** Runs statements: the pool, or one client inside a transaction. Parameters require a prepared statement. */
export interface Sql {
  query<Row extends pg.QueryResultRow>(statement: string | PreparedStatement): Promise<pg.QueryResult<Row>>
}
export type Pool = pg.Pool

/** Long enough for retries to outlast a restart of the server, short enough for a caller to get a 503. */
const CONNECT_TIMEOUT_MS = 5000
/** The service's own statements are short; one that hangs must not occupy a connection permanently. */
const STATEMENT_TIMEOUT_MS = 15_000

/** Creates a connection pool. A lost idle connection is passed to `onError` and replaced at the next use. */
export function createPool(options: {
  connectionString: string
  maximumConnections: number
  applicationName: string
  onError: (error: Error) => void
  /** For reports over the whole ledger; default 15 s. */
  statementTimeoutMs?: number
  /** Also limits the wait for a free connection of the pool; default 5 s. */
  connectTimeoutMs?: number
}): Pool {
  const { statementTimeoutMs = STATEMENT_TIMEOUT_MS, connectTimeoutMs = CONNECT_TIMEOUT_MS } = options
  const pool = new pg.Pool({
    connectionString: options.connectionString,
    max: options.maximumConnections,
    application_name: options.applicationName,
    connectionTimeoutMillis: connectTimeoutMs,
    statement_timeout: statementTimeoutMs,
    query_timeout: statementTimeoutMs + connectTimeoutMs,
    keepAlive: true,
  })
  pool.on('error', options.onError)
  // pg also emits an error when a connection in use is lost. Its statement rejects anyway; without a listener the
  // emitted error would end the process.
  pool.on('connect', (client) => client.on('error', () => undefined))
  return pool
}
