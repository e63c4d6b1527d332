import { PostgresConnection, PostgresQueueBackend } from 'bullmq'
import pg from 'pg'

/**
 * Everything that overrides parts of BullMQ (6.7.0) or of pg (8.23.1). `test/system/processes/job-queue.test.ts`
 * runs both without these overrides: a test that fails there shows that upstream has changed and the override can go.
 */

/**
 * A client whose connection loss does not end the process. pg emits `error` on a client that is checked out of its pool
 * (brianc/node-postgres#2386), and BullMQ adds its listener to the listening client only once that has connected: a
 * server that shuts down at that moment reports it in the same packet as its readiness. BullMQ: no upstream issue found
 * (2026-11-22).
 */
export class ErrorTolerantClient extends pg.Client {
  constructor(config?: string | pg.ClientConfig) {
    super(config)
    // The statement or the notification that is awaited fails as well.
    this.on('error', () => undefined)
  }
}

type RunStatement = (name: string, values: readonly unknown[]) => Promise<{ readonly rows: readonly unknown[] }>

/**
 * Statements about delayed messages and rate limits, neither of which farebox uses. BullMQ runs them on each empty
 * fetch.
 */
const UNNEEDED_STATEMENTS: ReadonlySet<string> = new Set(['next_signal', 'next_delay'])

/**
 * A queue that shares its connection with other queues and skips three of eight statements for each message that
 * arrives alone. BullMQ creates a pool for each queue and each worker, which would use up a server's connections; its
 * `ownsConnection: false` neither reports errors nor listens again after a reconnection. No upstream issue found
 * (2026-11-22); taskforcesh/bullmq#4601 is about other unneeded statements of idle workers.
 */
export class ConnectionSharingBackend extends PostgresQueueBackend {
  constructor(...parameters: ConstructorParameters<typeof PostgresQueueBackend>) {
    super(...parameters)
    const send = this['run'].bind(this) as RunStatement
    const run: RunStatement = (name, values) =>
      UNNEEDED_STATEMENTS.has(name) ? Promise.resolve({ rows: [] }) : send(name, values)
    Object.assign(this, { run })
  }

  /** Leaves the connection open: another queue may still need it to finish a job. */
  override async close(): Promise<void> {
    await this.disconnectBlocking()
  }
}

type ListenClient = Awaited<ReturnType<PostgresConnection['getListenClient']>>

/**
 * A connection for several queues. Its listening client runs the queues' statements one after the other: pg 8 warns
 * about statements that wait behind each other, pg 9 will no longer queue them (brianc/node-postgres#3603). BullMQ: no
 * upstream issue found (2026-11-22).
 */
export class SharedPostgresConnection extends PostgresConnection {
  #listening: { client: ListenClient; serialized: ListenClient } | undefined

  constructor(settings: ConstructorParameters<typeof PostgresConnection>[0]) {
    super(settings)
    // The pool takes its client class from the settings. The listening client takes it from BullMQ's reference to pg.
    Object.assign(this, { pgModule: { Client: ErrorTolerantClient } })
  }

  override async getListenClient(): Promise<ListenClient> {
    const client = await super.getListenClient()
    if (this.#listening?.client !== client) this.#listening = { client, serialized: serializeQueries(client) }
    return this.#listening.serialized
  }
}

function serializeQueries(client: ListenClient): ListenClient {
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

/**
 * Replaces BullMQ's function that records an event: each message caused five rows and notifications, which nobody reads and
 * which its commits queued up for. Instead it tells PostgreSQL not to wait for the disk, as Redis does not: a message that a
 * crash loses is enqueued again from its job's row. BullMQ: no option for either found (2026-11-28).
 */
export const NO_EVENTS = {
  body: "BEGIN PERFORM set_config('synchronous_commit', 'off', true); RETURN 0; END",
  signature: 'publish_event(p_queue text, p_event text, p_data jsonb) RETURNS bigint',
} as const

/**
 * Options of a producer on Redis. Without `skipVersionCheck` BullMQ reads the server's version once and keeps the
 * rejected promise: if Redis does not answer at that moment, every later message is rejected (taskforcesh/bullmq#930,
 * closed but still the case).
 */
export const REDIS_PRODUCER_OPTIONS = { skipVersionCheck: true } as const
