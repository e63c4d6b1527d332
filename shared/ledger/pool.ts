import pg from 'pg'
import type { WaitWatch } from './watch-waits.ts'

/**
 * A statement with parameters. PostgreSQL parses and plans it once for each connection, under its name: one name for
 * each text. Its result must keep its shape while processes run, even across migrations, so no statement returns `*`.
 */
export interface PreparedStatement {
  readonly name: string
  readonly text: string
  readonly values: readonly unknown[]
  /** How its columns are parsed, where not as pg does it by default. */
  readonly types?: pg.CustomTypesConfig
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

/**
 * How long a transaction of a service may wait for its next statement. A host whose network is lost in the middle of one
 * would hold its locks until PostgreSQL gives the connection up, by default after two hours. Less than a lease lasts, so
 * that another process can take the job over.
 */
const IDLE_TRANSACTION_MS = 10_000

/**
 * PostgreSQL otherwise plans a prepared statement anew for its first five executions on each connection, and later
 * whenever a plan for the values looks cheaper than the general one by more than planning costs. The service's
 * statements find their rows by an index whatever the values are, and planning one takes longer than executing it. By
 * default PostgreSQL takes a page that an index leads to for four times as expensive as the next one, as on a turning
 * disk, and reads a table of a thousand rows as a whole instead.
 */
const PLAN_ONCE = 'SET plan_cache_mode = force_generic_plan; SET random_page_cost = 1.1'

/** Creates a connection pool. A lost idle connection is passed to `onError` and replaced at the next use. */
export function createPool(options: {
  connectionString: string
  maximumConnections: number
  applicationName: string
  onError: (error: Error) => void
  /** Is told about the clients of the pool. */
  waits?: WaitWatch
  /** Default 15 s; longer for reports over the whole ledger, and 0 (none) for migrations. */
  statementTimeoutMs?: number
  /** How long a statement waits for a lock. By default as long as it may take, and at most 15 s. */
  lockTimeoutMs?: number
  /** How long a transaction may wait for its next statement; default 10 s, and none with a statement timeout of its own. */
  idleTransactionMs?: number
  /**
   * Whether statements are planned once for each connection; by default unless the pool has a statement timeout of its
   * own. Not for searches and reports, whose best plan depends on their period and filters.
   */
  plansOnce?: boolean
  /**
   * For opening a connection; default 5 s. The wait for a free one is limited like a statement: a thousand calls that
   * arrive together wait for each other, which is no outage.
   */
  connectTimeoutMs?: number
}): Pool {
  const { statementTimeoutMs = STATEMENT_TIMEOUT_MS, connectTimeoutMs = CONNECT_TIMEOUT_MS } = options
  const { plansOnce = options.statementTimeoutMs === undefined } = options
  const { lockTimeoutMs = STATEMENT_TIMEOUT_MS } = options
  const longestMs = statementTimeoutMs === 0 ? 0 : statementTimeoutMs + connectTimeoutMs
  const { connectionString, waits } = options
  const pool = new pg.Pool({
    Client: class extends pg.Client {
      constructor(config?: string | pg.ClientConfig) {
        super({ ...Object(config), connectionTimeoutMillis: connectTimeoutMs })
        // pg also emits an error when a connection in use is lost. Its statement rejects anyway; without a listener the
        // emitted error would end the process.
        this.on('error', () => undefined)
        waits?.addConnecting(this)
      }
    },
    connectionString,
    max: options.maximumConnections,
    application_name: options.applicationName,
    connectionTimeoutMillis: longestMs,
    statement_timeout: statementTimeoutMs,
    query_timeout: longestMs,
    keepAlive: true,
    // Statements are sent when they are made, also while others of the same client run: see `inPipelinedTransaction`.
    pipeline: true,
  })
  waits?.addPool(pool)
  pool.on('error', options.onError)
  const { idleTransactionMs = options.statementTimeoutMs === undefined ? IDLE_TRANSACTION_MS : 0 } = options
  const settings = [
    ...(plansOnce ? [PLAN_ONCE] : []),
    ...(statementTimeoutMs === 0 || lockTimeoutMs < statementTimeoutMs ? [`SET lock_timeout = ${lockTimeoutMs}`] : []),
    ...(idleTransactionMs > 0 ? [`SET idle_in_transaction_session_timeout = ${idleTransactionMs}`] : []),
  ].join(';')
  // No startup parameters, which PgBouncer refuses. When it fails, so does the statement that the connection is for.
  if (settings !== '') pool.on('connect', (client) => void client.query(settings).catch(() => undefined))
  return pool
}
