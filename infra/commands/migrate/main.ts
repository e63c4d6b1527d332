import { z } from 'zod'
import { migrateQueue } from '#shared/adapters/bullmq/bullmq-queue.ts'
import { QUEUE_SCHEMA } from '#shared/adapters/bullmq/postgres-engine.ts'
import { migrate } from '#shared/ledger/migrate.ts'
import { findServiceRoles, grantServiceRights } from '#shared/ledger/role-rights.ts'
import { prepareServiceRole } from '#shared/ledger/service-role.ts'
import { GIVE_UP_AFTER_MS } from '#shared/ledger/until-unblocked.ts'
import { withConnection } from '#shared/ledger/with-connection.ts'
import { checkedSettings, createMain, Refusal } from '../command-line.ts'

export interface MigrateAllOptions {
  /** Default: the same database. */
  readonly queueUrl?: string | undefined
  /** How the services connect, where they do not as the owner of the tables. Their role is created if it is missing. */
  readonly serviceUrl?: string | undefined
  /** Receives one line for each step. */
  readonly onProgress?: (line: string) => void
}

/**
 * Migrates the tables of ledger and queue as their owner, and gives the roles of services their rights. Safe to repeat and
 * to run from several machines concurrently.
 */
export async function migrateAll(ownerUrl: string, options: MigrateAllOptions = {}): Promise<readonly string[]> {
  const { queueUrl = ownerUrl, serviceUrl, onProgress } = options
  // An index over many millions of rows takes as long as it takes; only waits for locks are limited.
  const connection = {
    connectionString: ownerUrl,
    applicationName: 'farebox migrate',
    statementTimeoutMs: 0,
    lockTimeoutMs: GIVE_UP_AFTER_MS,
    ...(onProgress ? { onWait: onProgress } : {}),
  }
  return await withConnection(connection, async (pool) => {
    const applied = await migrate(pool, { onProgress })
    await migrateQueue(queueUrl, { onProgress })
    const role = serviceUrl === undefined ? [] : [await prepareServiceRole(pool, serviceUrl)]
    for (const each of new Set([...role, ...(await findServiceRoles(pool))])) {
      await grantServiceRights(pool, each, QUEUE_SCHEMA)
      onProgress?.(`${each}: may use the tables as a service`)
    }
    return applied
  })
}

const settingsSchema = z.object({
  DATABASE_URL: z.string({ error: 'is not set' }),
  MIGRATION_DATABASE_URL: z.string().optional(),
  QUEUE_URL: z.string().optional(),
})

/** Runs the command and returns its exit code. */
export const main = createMain('migrate', (command, run) =>
  command
    .description(
      `Applies the missing migrations of ledger and queue, and reports each on standard error. Safe to repeat, and to run
concurrently: one process migrates, the others wait. Programs of the previous version keep running meanwhile.

A migration that does not get the lock of a table within 300 ms is rolled back and tried again for ten minutes, so that
calls never wait behind it for long. The sessions that it waits for are named, as is a server that does not answer.
Statements have no time limit.`,
    )
    .addHelpText(
      'after',
      `
Environment: MIGRATION_DATABASE_URL, whose role owns the tables, and DATABASE_URL, whose role the services have: it is
created if it does not exist, and gets no more rights than they need, so that it can neither change what is recorded for
good nor switch off the triggers that refuse it. Without the former, DATABASE_URL is for both. QUEUE_URL when the queue is
not in that database. The migration must reach PostgreSQL itself, or a pooler in session mode: the lock against a second
one belongs to a session.

Exit code: 0 when the schema is up to date, 1 for a failure (what was applied before stays applied), 2 for wrong usage.`,
    )
    .action(
      run(async (_, settings) => {
        const {
          DATABASE_URL: databaseUrl,
          MIGRATION_DATABASE_URL: ownerUrl,
          QUEUE_URL: queueUrl,
        } = checkedSettings(settingsSchema, settings)
        try {
          const applied = await migrateAll(ownerUrl ?? databaseUrl, {
            queueUrl,
            serviceUrl: ownerUrl === undefined ? undefined : databaseUrl,
            onProgress: (line) => console.error(line),
          })
          console.log(applied.length === 0 ? 'The schema is up to date.' : `Applied ${applied.join(', ')}.`)
        } catch (error) {
          throw new Refusal(error instanceof Error ? error.message : String(error))
        }
      }),
    ),
)

if (import.meta.main) process.exitCode = await main(process.argv.slice(2), process.env)
