import { type PostgresConnection, type PostgresQueueBackend, withBackend } from 'bullmq'
import { QUEUE_NAMES } from '#shared/jobs/job-queue.ts'
import { CONSUMER_RETRY_MS, MESSAGE_OPTIONS, type QueueEngine } from './queue-engine.ts'
import { ConnectionSharingBackend, ErrorTolerantClient, SharedPostgresConnection } from './workarounds.ts'

/** The queue's tables are separate from the ledger's and can be dropped without losing work. */
export const QUEUE_SCHEMA = 'farebox_queue'
/** Adding and taking messages are short statements. The listening connection is additional. */
const MAXIMUM_CONNECTIONS = 6
const CONNECT_TIMEOUT_MS = 5000

function connectTo(queueUrl: string, migrate: boolean): PostgresConnection {
  return new SharedPostgresConnection({
    connectionString: queueUrl,
    schema: QUEUE_SCHEMA,
    max: MAXIMUM_CONNECTIONS,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAlive: true,
    migrate,
    Client: ErrorTolerantClient,
  })
}

/**
 * Creates or updates the queue's own tables, and the sequence of each queue, which BullMQ would create with the first
 * message: a service's role may not.
 */
export async function migratePostgresQueue(queueUrl: string): Promise<void> {
  const connection = connectTo(queueUrl, true)
  try {
    await connection.waitUntilReady()
    await connection.pool.query(
      `SELECT ${QUEUE_SCHEMA}.next_job_id(name) FROM unnest($1::text[]) AS name
       WHERE to_regclass('${QUEUE_SCHEMA}.' || ${QUEUE_SCHEMA}.job_id_seq_name(name)) IS NULL`,
      [QUEUE_NAMES],
    )
  } finally {
    await connection.close()
  }
}

/** Opens the queue in PostgreSQL. Throws when it cannot be reached or its tables are missing. */
export async function openPostgresEngine(queueUrl: string): Promise<QueueEngine> {
  const connection = connectTo(queueUrl, false)
  try {
    await connection.waitUntilReady()
  } catch (error) {
    await connection.close()
    throw error
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
