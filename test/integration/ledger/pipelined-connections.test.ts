import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { isConnectionFailure } from '#shared/adapters/connection-failure.ts'
import { createPool, type Pool } from '#shared/adapters/postgres/pool.ts'
import { inPipelinedTransaction, inTransaction } from '#shared/adapters/postgres/transaction.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { until } from '../../support/until.ts'

let ledger: TestLedger
beforeAll(async () => {
  ledger = await createTestLedger()
  await ledger.sql('CREATE TABLE notes (text text)')
})
afterAll(() => ledger.close())

/** The SQLSTATE of `pg_terminate_backend`, which counts as a lost connection. */
const ADMIN_SHUTDOWN = '57P01'

/** Opens a pool of one connection, which has a name of its own. */
async function withPool<T>(
  work: (pool: Pool, name: string) => Promise<T>,
  statementTimeoutMs = PATIENCE_MS,
): Promise<T> {
  const name = randomUUID()
  const options = { connectionString: ledger.url, maximumConnections: 1, applicationName: name, statementTimeoutMs }
  const pool = createPool({ ...options, onError: () => undefined, connectTimeoutMs: statementTimeoutMs })
  try {
    return await work(pool, name)
  } finally {
    await pool.end()
  }
}

/** Ends a connection once it sleeps. */
async function endConnection(name: string): Promise<void> {
  await until(async () => {
    const ended = await ledger.sql(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1 AND wait_event = 'PgSleep'",
      [name],
    )
    return ended.length > 0
  })
}

const writeNote = { name: 'write_note', text: 'INSERT INTO notes VALUES ($1)', values: ['written'] }
const divide = (by: number) => ({ name: 'divide', text: 'SELECT 1 / $1::int AS quotient', values: [by] })

describe('a connection on which statements are sent without waiting', () => {
  it('works after a statement that failed, also for statements that were prepared behind it', async () => {
    await withPool(async (pool) => {
      const failing = inTransaction(pool, (sql) => Promise.all([sql.query(divide(0)), sql.query(writeNote)]))
      await expect(failing).rejects.toMatchObject({ code: '22012' })
      const [divided, written] = await inTransaction(pool, (sql) =>
        Promise.all([sql.query(divide(1)), sql.query(writeNote)]),
      )
      expect([divided.rows, written.rowCount]).toEqual([[{ quotient: 1 }], 1])
      await ledger.sql('DELETE FROM notes')
    })
  })

  it('is replaced after a statement that the server never answers', async () => {
    await withPool(async (pool) => {
      const hanging = inTransaction(pool, async (sql) => {
        await sql.query('SET LOCAL statement_timeout = 0')
        await Promise.all([sql.query('SELECT pg_sleep(600)'), sql.query(writeNote)])
      })
      expect(await hanging.catch(isConnectionFailure)).toBe(true)
      expect((await pool.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
    }, 500)
    expect(await ledger.sql('SELECT FROM notes')).toEqual([])
  })

  it('commits nothing when it is lost before the statements behind COMMIT, and reports the loss', async () => {
    await withPool(async (pool, name) => {
      const lost = inPipelinedTransaction(pool, async (sql) => {
        const sent = [sql.query(writeNote), sql.query('SELECT pg_sleep(600)'), sql.query(writeNote)]
        await sql.commitBehind(Promise.all(sent))
      })
      const code = lost.catch((error: { code?: string }) => error.code)
      await endConnection(name)
      expect(await code).toBe(ADMIN_SHUTDOWN)
      expect((await pool.query('SELECT FROM notes')).rowCount).toBe(0)
    })
  })

  it('waits for a statement on its way before it is used again when the work fails', async () => {
    await withPool(async (pool) => {
      const failing = inPipelinedTransaction(pool, async (sql) => {
        sql.query(writeNote).catch(() => undefined)
        await delay(0)
        throw new Error('of the work itself')
      })
      await expect(failing).rejects.toThrow('of the work itself')
      expect((await pool.query('SELECT FROM notes')).rowCount).toBe(0)
    })
  })
})
