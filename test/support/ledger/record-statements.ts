import type pg from 'pg'
import type { PreparedStatement } from '#shared/ledger/pool.ts'
import type { TestLedger } from './test-ledger.ts'

/** Passes every statement of a ledger with one connection to `onStatement`, except the test's own with parameters. */
export async function recordStatements(
  { pool }: TestLedger,
  onStatement: (statement: string | PreparedStatement) => void,
): Promise<void> {
  const client: pg.PoolClient = await pool.connect()
  const query = client.query.bind(client) as (...call: unknown[]) => unknown
  // The pool calls it as well.
  Object.assign(client, {
    query: (...call: [string | PreparedStatement, ...unknown[]]) => {
      // The test's own statements are texts with separate parameters.
      if (!Array.isArray(call[1])) onStatement(call[0])
      return query(...call)
    },
  })
  client.release()
}
