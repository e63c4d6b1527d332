import { createPool, type Pool } from '#shared/adapters/postgres/pool.ts'

/** Runs a check over one connection of its own. */
export async function withDatabase<Result>(
  connectionString: string,
  check: (pool: Pool) => Promise<Result>,
): Promise<Result> {
  const pool = createPool({
    connectionString,
    maximumConnections: 1,
    applicationName: 'farebox preflight',
    // The statement in progress fails, too, and is reported.
    onError: () => undefined,
  })
  try {
    return await check(pool)
  } finally {
    await pool.end()
  }
}
