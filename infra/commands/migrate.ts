import { migrateQueue } from '#shared/adapters/bullmq/job-queue.ts'
import { migrate } from '#shared/adapters/postgres/migrate.ts'
import { createPool } from '#shared/adapters/postgres/pool.ts'

/** Migrates the tables of ledger and queue. Safe to repeat and to run from several machines concurrently. */
export async function migrateAll(databaseUrl: string, queueUrl = databaseUrl): Promise<readonly string[]> {
  const pool = createPool({
    connectionString: databaseUrl,
    maximumConnections: 1,
    applicationName: 'farebox migrate',
    // A lost connection also fails the statement in progress, and that error is reported.
    onError: () => undefined,
  })
  try {
    const applied = await migrate(pool)
    await migrateQueue(queueUrl)
    return applied
  } finally {
    await pool.end()
  }
}

const HELP = `Usage: npm run migrate

Applies the missing migrations of ledger and queue. Safe to repeat.

Environment: DATABASE_URL, and QUEUE_URL when the queue is not in that database.`

async function main(): Promise<void> {
  const { DATABASE_URL: databaseUrl, QUEUE_URL: queueUrl } = process.env
  if (process.argv.includes('--help')) {
    console.log(HELP)
  } else if (databaseUrl === undefined) {
    console.error(`DATABASE_URL is not set.\n\n${HELP}`)
    process.exitCode = 2
  } else {
    const applied = await migrateAll(databaseUrl, queueUrl)
    console.log(applied.length === 0 ? 'The schema is up to date.' : `Applied ${applied.join(', ')}.`)
  }
}

if (import.meta.main) await main()
