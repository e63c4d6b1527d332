import { migrateQueue } from '#shared/adapters/bullmq/bullmq-queue.ts'
import { migrate } from '#shared/adapters/postgres/migrate.ts'
import { withConnection } from '#shared/adapters/postgres/with-connection.ts'

export interface MigrateAllOptions {
  /** Default: the same database. */
  readonly queueUrl?: string | undefined
  /** Receives one line for each step. */
  readonly onProgress?: (line: string) => void
}

/** Migrates the tables of ledger and queue. Safe to repeat and to run from several machines concurrently. */
export async function migrateAll(databaseUrl: string, options: MigrateAllOptions = {}): Promise<readonly string[]> {
  const { queueUrl = databaseUrl, onProgress } = options
  // An index over many millions of rows takes as long as it takes; only waits for locks are limited.
  const connection = { connectionString: databaseUrl, applicationName: 'farebox migrate', statementTimeoutMs: 0 }
  return await withConnection(connection, async (pool) => {
    const applied = await migrate(pool, onProgress ? { onProgress } : {})
    await migrateQueue(queueUrl)
    return applied
  })
}

const HELP = `Usage: npm run migrate

Applies the missing migrations of ledger and queue, and reports each on standard error. Safe to repeat, and to run
concurrently: one process migrates, the others wait. Programs of the previous version keep running meanwhile.

A migration that does not get the lock of a table within 300 ms is rolled back and tried again for ten minutes, so that
calls never wait behind it for long. The sessions that it waits for are named. Statements have no time limit.

Exit codes: 0 when the schema is up to date, 1 for a failure (what was applied before stays applied), 2 for wrong usage.

Environment: DATABASE_URL, and QUEUE_URL when the queue is not in that database. DATABASE_URL must reach PostgreSQL
itself, or a pooler in session mode: the lock against a second migration belongs to a session.`

async function main(): Promise<number> {
  const { DATABASE_URL: databaseUrl, QUEUE_URL: queueUrl } = process.env
  const [unknown] = process.argv.slice(2).filter((argument) => argument !== '--help')
  if (process.argv.includes('--help')) {
    console.log(HELP)
    return 0
  }
  if (unknown !== undefined || databaseUrl === undefined) {
    console.error(`${unknown === undefined ? 'DATABASE_URL is not set' : `unknown argument: ${unknown}`}.\n\n${HELP}`)
    return 2
  }
  try {
    const applied = await migrateAll(databaseUrl, { queueUrl, onProgress: (line) => console.error(line) })
    console.log(applied.length === 0 ? 'The schema is up to date.' : `Applied ${applied.join(', ')}.`)
    return 0
  } catch (error) {
    console.error(error instanceof Error ? error.message : String(error))
    return 1
  }
}

if (import.meta.main) process.exitCode = await main()
