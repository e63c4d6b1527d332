import type { Pool, Sql } from './pool.ts'

/**
 * Runs `work` in one transaction: commits when it returns, rolls back when it throws. `work` must not use the network.
 * A client whose rollback fails is destroyed instead of returned to the pool.
 */
export async function inTransaction<T>(pool: Pool, work: (sql: Sql) => Promise<T>): Promise<T> {
  const client = await pool.connect()
  try {
    await client.query('BEGIN')
    const result = await work(client)
    await client.query('COMMIT')
    client.release()
    return result
  } catch (error) {
    try {
      await client.query('ROLLBACK')
      client.release()
    } catch (rollbackError) {
      client.release(rollbackError instanceof Error ? rollbackError : true)
    }
    throw error
  }
}
