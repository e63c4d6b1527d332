import { PostgresConnection, PostgresQueueBackend, withBackend } from 'bullmq'
import pg from 'pg'
import { CONNECT_TIMEOUT_MS, messageOptions, type QueueEngine, TAKER_RETRY_MS } from './queue-engine.ts'

/** The queue's tables live apart from the ledger's and may be dropped without losing work. */
const QUEUE_SCHEMA = 'farebox_queue'
/** Adding and taking are short statements; the listening connection comes on top. */
const MAXIMUM_CONNECTIONS = 6

function connectTo(queueUrl: string, migrate: boolean): PostgresConnection {
  return new SharedConnection({
    connectionString: queueUrl,
    schema: QUEUE_SCHEMA,
    max: MAXIMUM_CONNECTIONS,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAlive: true,
    migrate,
    Client: HeardClient,
  })
}

/**
 * A client whose loss ends no process. BullMQ listens for errors only after it has connected, or not at all; a server that shuts
 * down in that moment says so in the same packet in which it says that it is ready.
 */
class HeardClient extends pg.Client {
  constructor(config?: string | pg.ClientConfig) {
    super(config)
    // Whoever waits for a statement or a notification learns of the loss by that.
    this.on('error', () => undefined)
  }
}

/** Creates or updates the queue's own tables. */
export async function migratePostgresQueue(queueUrl: string): Promise<void> {
  const connection = connectTo(queueUrl, true)
  try {
    await connection.waitUntilReady()
  } finally {
    await connection.close()
  }
}

type RunStatement = (name: string, values: readonly unknown[]) => Promise<{ readonly rows: readonly unknown[] }>

/** What BullMQ asks about delayed messages and rate limits whenever it finds no message. There are neither here. */
const POINTLESS_STATEMENTS: ReadonlySet<string> = new Set(['next_signal', 'next_delay'])

/**
 * BullMQ gives each queue a pool of its own; five queues in a few processes would use up a server's connections. Of eight
 * statements for a message that comes alone, three are left out.
 */
class SharingBackend extends PostgresQueueBackend {
  constructor(...parameters: ConstructorParameters<typeof PostgresQueueBackend>) {
    super(...parameters)
    const send = this['run'].bind(this) as RunStatement
    const run: RunStatement = (name, values) =>
      POINTLESS_STATEMENTS.has(name) ? Promise.resolve({ rows: [] }) : send(name, values)
    Object.assign(this, { run })
  }

  /** The connection is the engine's: another queue may still need it to finish a job. */
  override async close(): Promise<void> {
    await this.disconnectBlocking()
  }
}

/** The queues begin to listen at the same time, over one connection that takes one statement after the other. */
class SharedConnection extends PostgresConnection {
  #listening: { client: ListenClient; serial: ListenClient } | undefined

  constructor(settings: ConstructorParameters<typeof PostgresConnection>[0]) {
    super(settings)
    // The pool takes its class from the settings; the client that listens has none, so BullMQ's own module is stood in for.
    Object.assign(this, { pgModule: { Client: HeardClient } })
  }

  override async getListenClient(): Promise<ListenClient> {
    const client = await super.getListenClient()
    if (this.#listening?.client !== client) this.#listening = { client, serial: oneAtATime(client) }
    return this.#listening.serial
  }
}

type ListenClient = Awaited<ReturnType<PostgresConnection['getListenClient']>>

function oneAtATime(client: ListenClient): ListenClient {
  let last: Promise<unknown> = Promise.resolve()
  const query: ListenClient['query'] = (...parameters) => {
    const next = last.then(() => client.query(...parameters))
    last = next.catch(() => undefined)
    return next
  }
  return new Proxy(client, {
    get: (target, name) => {
      if (name === 'query') return query
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
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
    (name, options) => new SharingBackend(connection, name, options, true),
  )
  return {
    createProducer: (name) => new Queue(name, { connection: queueUrl, defaultJobOptions: messageOptions }),
    createTaker: (name, concurrency, take) =>
      new Worker(name, take, { connection: queueUrl, concurrency, runRetryDelay: TAKER_RETRY_MS }),
    check: async () => void (await connection.pool.query('SELECT 1')),
    close: () => connection.close(),
  }
}
