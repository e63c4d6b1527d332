import { openJobQueue } from '#shared/adapters/bullmq/bullmq-queue.ts'
import { openObjectStore } from '#shared/adapters/open-stores.ts'
import { createLedgerCheck } from '#shared/adapters/postgres/check-schema.ts'
import { findRoleProblem } from '#shared/adapters/postgres/role-rights.ts'
import { withConnection } from '#shared/adapters/postgres/with-connection.ts'
import type { QueueSettings } from '#shared/jobs/queue-settings.ts'
import type { ObjectUser } from '#shared/media/object-access.ts'
import type { ObjectStoreSettings } from '#shared/media/object-store-settings.ts'
import { type Check, passed, skipped } from '../check.ts'
import { attempted } from './attempted.ts'

/** Checks that the database has this program's schema and this machine's time. */
export function checkDatabase({ DATABASE_URL: connectionString }: QueueSettings): Promise<Check> {
  return attempted('database', 'DATABASE_URL', () =>
    withConnection({ connectionString, applicationName: 'farebox preflight' }, async (pool) => {
      const ledger = createLedgerCheck({ pool, databaseUrl: connectionString, now: () => new Date() })
      await ledger.schema()
      await ledger.clock()
      const { rows } = await pool.query<{ version: string; is_encrypted: boolean }>(
        `SELECT current_setting('server_version') AS version,
           coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false) AS is_encrypted`,
      )
      const [server] = rows
      return passed('database', `PostgreSQL ${server?.version}, ${server?.is_encrypted ? 'with' : 'without'} TLS`)
    }),
  )
}

/** Opens the object store as this process does: it tries each operation that it needs under each prefix. */
export function checkObjectStore(settings: ObjectStoreSettings, user: ObjectUser): Promise<Check> {
  const setting = settings.S3_BUCKET === undefined ? 'OBJECT_STORE_DIRECTORY' : 'S3_BUCKET'
  return attempted('object store', setting, async () => {
    const store = await openObjectStore(settings, user, () => undefined)
    try {
      await store.check()
      return passed('object store', `${setting} can be used as ${user === 'api' ? 'the API' : 'a worker'} needs it`)
    } finally {
      store.close()
    }
  })
}

/** Checks that the services cannot rewrite what is recorded for good. One role for all is a risk, not a failure. */
export function checkDatabaseRole({ DATABASE_URL: connectionString }: QueueSettings): Promise<Check> {
  return attempted('database role', 'DATABASE_URL', () =>
    withConnection({ connectionString, applicationName: 'farebox preflight' }, async (pool) => {
      const problem = await findRoleProblem(pool)
      return problem === null
        ? passed('database role', 'can neither change what is recorded for good nor switch its triggers off')
        : skipped('database role', `DATABASE_URL: ${problem}`)
    }),
  )
}

export function checkQueue(settings: QueueSettings): Promise<Check> {
  const setting = settings.QUEUE_URL === undefined ? 'DATABASE_URL' : 'QUEUE_URL'
  return attempted('queue', setting, async () => {
    const queue = await openJobQueue(settings, () => undefined)
    try {
      await queue.check()
      return passed('queue', `the queue at ${setting} answers`)
    } finally {
      await queue.close()
    }
  })
}
