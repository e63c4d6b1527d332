import { randomBytes, randomUUID } from 'node:crypto'
import { openJobQueue } from '#shared/adapters/bullmq/bullmq-queue.ts'
import { openObjectStore } from '#shared/adapters/open-stores.ts'
import type { QueueSettings } from '#shared/jobs/queue-settings.ts'
import { createLedgerCheck } from '#shared/ledger/check-schema.ts'
import { findRoleProblem } from '#shared/ledger/role-rights.ts'
import { withConnection } from '#shared/ledger/with-connection.ts'
import type { ObjectUser } from '#shared/media/object-access.ts'
import type { ObjectStoreSettings } from '#shared/media/object-store-settings.ts'
import { RETENTION_CLASSES } from '#shared/media/retention.ts'
import { attempted } from './attempted.ts'
import { type Check, failed, judged, passed, skipped } from './check.ts'

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

/** Names of this machine, and of a network that only its own containers can reach. */
const OWN_NETWORK = /^(localhost|127\.[\d.]+|\[::1\]|[a-z0-9_-]+)$/i

/** Returns whether a database is reached by a socket of this machine, or within its own network. */
export function isOwnServer(connectionString: string): boolean {
  const { hostname, searchParams } = new URL(connectionString)
  const host = searchParams.get('host') ?? decodeURIComponent(hostname)
  return host === '' || host.startsWith('/') || OWN_NETWORK.test(host)
}

/** Connections that a process has beside its pool: listeners and health checks. */
const BESIDE_POOL = 2

const PROBE_BYTES = 32

/** Checks how the database is reached, and whether it has room for one process of each role and keeps its log. */
export function checkDatabaseServer(
  { DATABASE_URL: connectionString }: QueueSettings,
  pools: readonly { readonly DATABASE_CONNECTIONS: number }[],
): Promise<readonly Check[]> {
  return Promise.all(
    (['database TLS', 'database connections', 'WAL archiving'] as const).map((name) =>
      attempted(name, 'DATABASE_URL', () =>
        withConnection({ connectionString, applicationName: 'farebox preflight' }, async (pool) => {
          const { rows } = await pool.query<{ is_encrypted: boolean; connections: number; archives: boolean }>(
            `SELECT coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false) AS is_encrypted,
               current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
                 AS connections,
               current_setting('archive_mode') <> 'off' AS archives`,
          )
          const { is_encrypted: isEncrypted = false, connections = 0, archives = false } = rows[0] ?? {}
          const needed = pools.reduce((sum, { DATABASE_CONNECTIONS: own }) => sum + own + BESIDE_POOL, 0)
          switch (name) {
            case 'database TLS':
              return judged(
                name,
                isEncrypted || isOwnServer(connectionString)
                  ? []
                  : [
                      'payments, prompts and results cross the network in clear: add sslmode=verify-full to DATABASE_URL',
                    ],
                isEncrypted ? 'encrypted' : 'a server of this machine or network',
              )
            case 'database connections':
              return judged(
                name,
                connections < needed
                  ? [
                      `max_connections leaves ${connections}; one process of each role takes ${needed}: raise it, or lower DATABASE_CONNECTIONS`,
                    ]
                  : [],
                `${connections} for processes that take ${needed} each`,
              )
            case 'WAL archiving':
              return archives
                ? passed(name, 'on')
                : skipped(
                    name,
                    'off: after the loss of the disk, calls since the last backup are lost (infra/backup.md)',
                  )
          }
        }),
      ),
    ),
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

/** What says where the store is. */
const PLACE = ['OBJECT_STORE_DIRECTORY', 'S3_BUCKET', 'S3_ENDPOINT', 'S3_REGION'] as const

/**
 * Checks that a worker reads what the API stores, where they name the store differently: one bucket may have several
 * addresses. In two, callers pay for media that nobody can read.
 */
export async function checkCommonStore(
  api: ObjectStoreSettings,
  worker: ObjectStoreSettings,
): Promise<readonly Check[]> {
  const setting = PLACE.find((name) => api[name] !== worker[name])
  if (setting === undefined) return []
  const name = 'common store'
  const check = await attempted(name, setting, async () => {
    const stores = await Promise.all([
      openObjectStore(api, 'api', () => undefined),
      openObjectStore(worker, 'worker', () => undefined),
    ])
    const [ofApi, ofWorker] = stores
    const key = `${RETENTION_CLASSES.staged.prefix}/probe-${randomUUID()}`
    try {
      await ofApi.objects.put(key, randomBytes(PROBE_BYTES))
      const isCommon = (await ofWorker.objects.get(key)) !== null
      await ofApi.objects.delete(key)
      return isCommon
        ? passed(name, `a worker reads what the API stores, although ${setting} differs`)
        : failed(name, `${setting}: a worker does not find what the API stores: these are two stores`)
    } finally {
      for (const store of stores) store.close()
    }
  })
  return [check]
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
