import { createPool, type Pool } from './pool.ts'

export interface ConnectionOptions {
  readonly connectionString: string
  /** Shown in `pg_stat_activity`. */
  readonly applicationName: string
  readonly statementTimeoutMs?: number
  /** One by default. */
  readonly maximumConnections?: number
}

/** Runs a command's work over connections of its own, which are closed afterwards. */
export async function withConnection<Result>(
  options: ConnectionOptions,
  work: (pool: Pool) => Promise<Result>,
): Promise<Result> {
  // A lost connection also fails the statement in progress, and that error is reported.
  const pool = createPool({ maximumConnections: 1, ...options, onError: () => undefined })
  try {
    return await work(pool)
  } finally {
    await pool.end()
  }
}
