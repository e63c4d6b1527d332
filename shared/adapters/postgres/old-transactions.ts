import type { Sql } from './pool.ts'

const SHOWN_TRANSACTIONS = 3

/** Returns a sentence that names the oldest transactions of other sessions, which are what a lock usually waits for. */
export async function findOldTransactions(sql: Sql): Promise<string> {
  const { rows } = await sql.query<{ pid: number; program: string; seconds: number }>(
    `SELECT pid, application_name AS program, extract(epoch FROM clock_timestamp() - xact_start)::int AS seconds
     FROM pg_stat_activity
     WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
     ORDER BY xact_start LIMIT ${SHOWN_TRANSACTIONS}`,
  )
  if (rows.length === 0) return 'No other session is in a transaction now.'
  const sessions = rows.map(({ pid, program, seconds }) => `"${program}" (pid ${pid}, for ${seconds} s)`)
  return `The oldest transactions: ${sessions.join(', ')}.`
}
