import type pg from 'pg'
import { isStandby } from '#shared/runtime/connection-failure.ts'
import type { Pool, Sql } from './pool.ts'

/**
 * Runs `work` in one transaction: commits when it returns, rolls back when it throws. `work` must not use the network.
 * A client whose rollback fails, or whose server refuses to write, is destroyed instead of returned to the pool.
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
    await rollBack(client, error)
    throw error
  }
}

/** Runs `work` once a connection is free, which is closed when it fails. */
export async function withConnection<T>(pool: Pool, work: (sql: Sql) => Promise<T>): Promise<T> {
  const client = await pool.connect()
  try {
    const result = await work(client)
    client.release()
    return result
  } catch (error) {
    client.release(error instanceof Error ? error : true)
    throw error
  }
}

/** A transaction whose statements may be sent without waiting for the answers of those before. */
export interface PipelinedTransaction extends Sql {
  /**
   * Sends COMMIT behind statements that were sent, and returns their answers once it is done. Must be called last; a
   * transaction that is not committed so is committed when `work` returns. The statements must be such that the
   * transaction cannot be committed without them, as one that this process fails to send is not known to PostgreSQL.
   */
  commitBehind<T>(answers: Promise<T>): Promise<T>
}

/**
 * Runs `work` like `inTransaction`. The statements that it sends in one tick are one round trip: PostgreSQL runs them one
 * after the other, each with its own snapshot, taken after the one before is done. After one that failed all fail until
 * the rollback, and the first error is the one that is thrown.
 */
export async function inPipelinedTransaction<T>(
  pool: Pool,
  work: (transaction: PipelinedTransaction) => Promise<T>,
): Promise<T> {
  const client = await pool.connect()
  try {
    // Awaited, since `now()` of the transaction must not be later than what `work` measures, and because after a BEGIN
    // that failed alone the statements behind it would be committed one by one.
    await client.query('BEGIN')
    let isCommitted = false
    const commitBehind = async <Answers>(answers: Promise<Answers>): Promise<Answers> => {
      const [answered, { command }] = await Promise.all([answers, client.query('COMMIT')])
      // The answer to a COMMIT after a failed statement.
      if (command !== 'COMMIT') throw new Error(`the transaction ended with ${command}`)
      isCommitted = true
      return answered
    }
    const sql: Sql = client
    const result = await work({ query: (statement) => sql.query(statement), commitBehind })
    if (!isCommitted) await client.query('COMMIT')
    client.release()
    return result
  } catch (error) {
    await rollBack(client, error)
    throw error
  }
}

async function rollBack(client: pg.PoolClient, cause: unknown): Promise<void> {
  try {
    await client.query('ROLLBACK')
    client.release(isStandby(cause))
  } catch (error) {
    client.release(error instanceof Error ? error : true)
  }
}
