import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { migrateAll } from '../../../infra/commands/migrate/main.ts'
import { type EmbeddedPostgres, startPostgres } from '../../../infra/sandbox/postgres/embedded-postgres.ts'

/** What the server counted since its start, by statement. */
export type StatementTotals = ReadonlyMap<string, StatementTotal>

interface StatementTotal {
  /** The statement's text, with constants replaced. */
  readonly text: string
  readonly executions: number
  /** The time of planning and executing, in milliseconds. */
  readonly ms: number
}

/** A PostgreSQL that measures each statement. */
export interface ObservedPostgres {
  /** The ledger's database, migrated. */
  readonly url: string
  readonly pid: number
  /** Reads the totals of the ledger's statements by their identifier. */
  readTotals(): Promise<StatementTotals>
  /** Returns the identifier under which a statement's executions are counted, or `undefined` for one like `BEGIN`. */
  identify(statement: string): Promise<string | undefined>
  stop(): Promise<void>
}

/**
 * Starts a PostgreSQL with the extension pg_stat_statements, which is part of the sandbox's PostgreSQL. The extension is
 * loaded when a server starts, and its tables are in a database of their own: the ledger's schema stays as it is.
 */
export async function startObservedPostgres(): Promise<ObservedPostgres> {
  const directory = await mkdtemp(join(tmpdir(), 'farebox-observed-'))
  const dataDirectory = join(directory, 'postgres')
  let server: EmbeddedPostgres | undefined
  const stop = async () => {
    await server?.stop()
    await rm(directory, { recursive: true, force: true })
  }
  try {
    server = await startPostgres({ dataDirectory })
    await configure(server.connectionString)
    await server.stop()
    server = await startPostgres({ dataDirectory })
    await migrateAll(server.connectionString)
    return await observe(server, stop)
  } catch (error) {
    await stop()
    throw error
  }
}

async function configure(connectionString: string): Promise<void> {
  const client = new pg.Client({ connectionString })
  await client.connect()
  try {
    await client.query("ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'")
    await client.query('ALTER SYSTEM SET pg_stat_statements.track_planning = on')
  } finally {
    await client.end()
  }
}

async function observe(
  { connectionString, pid }: EmbeddedPostgres,
  stopServer: () => Promise<void>,
): Promise<ObservedPostgres> {
  const statisticsUrl = new URL(connectionString)
  statisticsUrl.pathname = '/postgres'
  const ledger = new pg.Pool({ connectionString, max: 1 })
  const statistics = new pg.Pool({ connectionString: statisticsUrl.href, max: 1 })
  // A connection that is still closing when the server ends is no failure of a measurement.
  for (const pool of [ledger, statistics]) pool.on('error', () => undefined)
  await statistics.query('CREATE EXTENSION pg_stat_statements')
  return {
    url: connectionString,
    pid,
    readTotals: async () => {
      const { rows } = await statistics.query<StatementTotal & { id: string }>(
        `SELECT queryid::text AS id, min(query) AS text, sum(calls)::float8 AS executions,
           sum(total_plan_time + total_exec_time) AS ms
         FROM pg_stat_statements WHERE dbid = (SELECT oid FROM pg_database WHERE datname = $1) GROUP BY 1`,
        [new URL(connectionString).pathname.slice(1)],
      )
      return new Map(rows.map(({ id, ...total }) => [id, total]))
    },
    identify: async (statement) => {
      const { rows } = await ledger.query<{ 'QUERY PLAN': string }>(`EXPLAIN (VERBOSE, GENERIC_PLAN) ${statement}`)
      return rows.map((row) => /^Query Identifier: (-?\d+)$/.exec(row['QUERY PLAN'])?.[1]).find(Boolean)
    },
    stop: async () => {
      await Promise.all([ledger.end(), statistics.end()])
      await stopServer()
    },
  }
}
