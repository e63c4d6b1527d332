import { parseQueueUrl } from '#shared/jobs/queue-url.ts'
import { isConnectionFailure, reasonOf } from '#shared/runtime/connection-failure.ts'
import { createPool, type Pool } from './pool.ts'
import { createWaitWatch } from './watch-waits.ts'

/**
 * The longest that a command holds a snapshot, in one statement or in a transaction of several. As long as one is open,
 * each message of the queue in PostgreSQL costs more than the one before (`npm run bench -- snapshot`).
 */
export const LONGEST_SNAPSHOT_MS = 300_000

export interface ConnectionOptions {
  readonly connectionString: string
  /** Shown in `pg_stat_activity`. */
  readonly applicationName: string
  readonly statementTimeoutMs?: number
  readonly lockTimeoutMs?: number
  /** One by default. */
  readonly maximumConnections?: number
  /** Receives a clause about each wait of seconds; by default it is printed to standard error. */
  readonly onWait?: (clause: string) => void
}

/**
 * Runs a command's work over connections of its own, which are closed afterwards. A failure to reach the database names it,
 * and one after a wait says what was waited for.
 */
export async function withConnection<Result>(
  options: ConnectionOptions,
  work: (pool: Pool) => Promise<Result>,
): Promise<Result> {
  const { connectionString, onWait = (clause: string) => console.error(clause) } = options
  const waits = createWaitWatch({ connectionString, onWait })
  // A lost connection also fails the statement in progress, and that error is reported.
  const pool = createPool({ maximumConnections: 1, ...options, onError: () => undefined, waits })
  try {
    return await work(pool)
  } catch (error) {
    const described = waits.describe(error)
    throw described === error ? namingServer(error, connectionString) : described
  } finally {
    await pool.end()
  }
}

function namingServer(error: unknown, connectionString: string): unknown {
  if (!isConnectionFailure(error)) return error
  const { shown } = parseQueueUrl(connectionString)
  return new Error(`the database at ${shown} cannot be reached: ${reasonOf(error)}`, { cause: error })
}
