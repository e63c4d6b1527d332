import {
  assertSchemaCompatibility,
  LATEST_SCHEMA_VERSION,
  type PgQueryable,
  type PostgresQueueBackend,
  runMigrations,
  SchemaMigrationRequiredError,
  withBackend,
} from 'bullmq'
import type pg from 'pg'
import { QUEUE_NAMES } from '#shared/jobs/job-queue.ts'
import { type LockPatience, untilUnblocked } from '#shared/ledger/until-unblocked.ts'
import { createWaitWatch } from '#shared/ledger/watch-waits.ts'
import { withConnection } from '#shared/ledger/with-connection.ts'
import { CONSUMER_RETRY_MS, MESSAGE_OPTIONS, type QueueEngine } from './queue-engine.ts'
import { ConnectionSharingBackend, ErrorTolerantClient, NO_EVENTS, SharedPostgresConnection } from './workarounds.ts'

/** The queue's tables are separate from the ledger's and can be dropped without losing work. */
export const QUEUE_SCHEMA = 'farebox_queue'
/** Adding and taking messages are short statements. The listening connection is additional. */
const MAXIMUM_CONNECTIONS = 6
const CONNECT_TIMEOUT_MS = 5000
/** A statement that hangs must not occupy a connection permanently. */
const STATEMENT_TIMEOUT_MS = 15_000

/**
 * Creates or updates the queue's own tables without events, and the sequence of each queue, which BullMQ would create with
 * the first message: a service's role may not. Looks first whether anything is missing: BullMQ's migration locks a table even where
 * nothing is to do, and every process that starts would wait behind it.
 */
export async function migratePostgresQueue(queueUrl: string, patience: LockPatience = {}): Promise<void> {
  const { onProgress } = patience
  const options = {
    connectionString: queueUrl,
    applicationName: 'farebox migrate',
    statementTimeoutMs: 0,
    ...(onProgress ? { onWait: onProgress } : {}),
  }
  await withConnection(options, async (pool) => {
    const client = await pool.connect()
    const run = async (lockTimeoutMs: number) => {
      await client.query(`SET lock_timeout = ${lockTimeoutMs}`)
      if ((await readVersion(client)) < LATEST_SCHEMA_VERSION) await runMigrations(client, QUEUE_SCHEMA)
      await createSequences(client)
      await client.query(
        `CREATE OR REPLACE FUNCTION ${QUEUE_SCHEMA}.${NO_EVENTS.signature} LANGUAGE plpgsql AS '${NO_EVENTS.body.replaceAll("'", "''")}'`,
      )
    }
    try {
      const remains = 'Nothing of the queue’s migrations was applied'
      if (!(await isMigrated(client)))
        await untilUnblocked(client, { name: `${QUEUE_SCHEMA} ${LATEST_SCHEMA_VERSION}`, remains, run }, patience)
    } finally {
      client.release(true)
    }
  })
}

async function isMigrated(client: pg.PoolClient): Promise<boolean> {
  if ((await readVersion(client)) < LATEST_SCHEMA_VERSION) return false
  const { rows } = await client.query<{ is_missing: boolean }>({
    text: `SELECT bool_or(to_regclass('${QUEUE_SCHEMA}.' || ${QUEUE_SCHEMA}.job_id_seq_name(name)) IS NULL)
       OR NOT EXISTS (
         SELECT FROM pg_proc WHERE pronamespace = '${QUEUE_SCHEMA}'::regnamespace AND proname = 'publish_event' AND prosrc = $2)
       AS is_missing
     FROM unnest($1::text[]) AS name`,
    values: [QUEUE_NAMES, NO_EVENTS.body],
  })
  return rows[0]?.is_missing === false
}

async function createSequences(client: pg.PoolClient): Promise<void> {
  await client.query(
    `SELECT ${QUEUE_SCHEMA}.next_job_id(name) FROM unnest($1::text[]) AS name
     WHERE to_regclass('${QUEUE_SCHEMA}.' || ${QUEUE_SCHEMA}.job_id_seq_name(name)) IS NULL`,
    [QUEUE_NAMES],
  )
}

/** Returns the version of the queue's schema, 0 where there is none. Throws when it needs a newer BullMQ. */
async function readVersion(client: PgQueryable): Promise<number> {
  try {
    return await assertSchemaCompatibility(client, QUEUE_SCHEMA)
  } catch (error) {
    if (error instanceof SchemaMigrationRequiredError) return 0
    throw error
  }
}

/** Throws when the tables are missing or older than this program's BullMQ, which BullMQ itself would accept. */
async function requireSchema(connection: SharedPostgresConnection): Promise<void> {
  await connection.waitUntilReady()
  const client = await connection.pool.connect()
  try {
    const version = await readVersion(client)
    if (version < LATEST_SCHEMA_VERSION)
      throw new Error(
        `its schema ${QUEUE_SCHEMA} has version ${version}, and this program needs ${LATEST_SCHEMA_VERSION}; run npm run migrate`,
      )
  } finally {
    client.release()
  }
}

/**
 * Opens the queue in PostgreSQL. Throws when it cannot be reached or its tables are missing or older than this program.
 * `onWait` receives a clause about each wait of seconds.
 */
export async function openPostgresEngine(queueUrl: string, onWait: (clause: string) => void): Promise<QueueEngine> {
  const waits = createWaitWatch({ connectionString: queueUrl, onWait })
  const connection = new SharedPostgresConnection({
    connectionString: queueUrl,
    schema: QUEUE_SCHEMA,
    max: MAXIMUM_CONNECTIONS,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    statement_timeout: STATEMENT_TIMEOUT_MS,
    query_timeout: STATEMENT_TIMEOUT_MS + CONNECT_TIMEOUT_MS,
    keepAlive: true,
    Client: class extends ErrorTolerantClient {
      constructor(config?: string | pg.ClientConfig) {
        super(config)
        waits.addConnecting(this)
      }
    },
  })
  waits.addPool(connection.pool as unknown as pg.Pool)
  try {
    await requireSchema(connection)
  } catch (error) {
    await connection.close()
    throw waits.describe(error)
  }
  const { Queue, Worker } = withBackend<PostgresQueueBackend, string>(
    (name, options) => new ConnectionSharingBackend(connection, name, options, true),
  )
  return {
    createProducer: (name) => new Queue(name, { connection: queueUrl, defaultJobOptions: MESSAGE_OPTIONS }),
    createConsumer: (name, concurrency, handle) =>
      new Worker(name, handle, { connection: queueUrl, concurrency, runRetryDelay: CONSUMER_RETRY_MS }),
    check: async () => void (await connection.pool.query('SELECT 1')),
    close: () => connection.close(),
  }
}
