import { Cluster, Redis, type RedisOptions } from 'ioredis'
import type { QueueAddress } from '#shared/jobs/queue-url.ts'
import { isConnectionFailure } from '#shared/runtime/connection-failure.ts'
import { withDeadline } from '#shared/runtime/with-deadline.ts'

export type RedisAddress = Exclude<QueueAddress, { kind: 'postgres' }>
export type RedisClient = Redis | Cluster

/** Less than a start waits, so that it learns the reason. */
const CONNECT_TIMEOUT_MS = 4000
const MAXIMUM_RECONNECT_DELAY_MS = 2000
/** Limit of one command. Adding a message takes less than a millisecond. */
const COMMAND_TIMEOUT_MS = 2000

export const NO_ANSWER = 'no answer in time'
/** Errors of the client, and replies of a server that starts, fails over or has no free connection. */
const OUTAGE =
  /^(no answer in time|Connection is closed|Command timed out|Stream isn't writeable|None of startup nodes|Reached the max retries|(LOADING|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|READONLY|BUSY|ERR max number of clients) )/
const NO_SENTINEL = /^All sentinels are unreachable.* Last error: /
const REFUSAL = /WRONGPASS|NOAUTH|NOPERM|invalid password|without any password configured|No such master/

/** Older servers wrap the reply of a statement in a script. */
const READ_ONLY = /\bREADONLY\b/

const reconnectDelay = (attempt: number) => Math.min(attempt * 100, MAXIMUM_RECONNECT_DELAY_MS)

/**
 * `producer`: commands fail immediately while Redis is unreachable, because a caller waits for them. `consumer`:
 * commands wait for the reconnection, as BullMQ's workers require.
 */
export type RedisRole = 'producer' | 'consumer'

/** Creates a client without connecting it. */
export function createRedisClient(address: RedisAddress, role: RedisRole): RedisClient {
  const options = {
    lazyConnect: true,
    connectTimeout: CONNECT_TIMEOUT_MS,
    keepAlive: 10_000,
    retryStrategy: reconnectDelay,
    // After a failover the server may live on as a replica and keep the connection, whose host name leads elsewhere by now.
    reconnectOnError: ({ message }) => READ_ONLY.test(message),
    ...(role === 'producer'
      ? { enableOfflineQueue: false, maxRetriesPerRequest: 0, commandTimeout: COMMAND_TIMEOUT_MS }
      : { maxRetriesPerRequest: null }),
    ...(address.username === undefined ? {} : { username: address.username }),
    ...(address.password === undefined ? {} : { password: address.password }),
    ...(address.tls ? { tls: {} } : {}),
  } satisfies RedisOptions
  switch (address.kind) {
    case 'redis':
      return new Redis({ ...options, ...address.node, db: address.database })
    case 'sentinel': {
      const { sentinels, masterName, database } = address
      return new Redis({
        ...options,
        sentinels: sentinels.map((node) => ({ ...node })),
        name: masterName,
        db: database,
        sentinelRetryStrategy: reconnectDelay,
        ...(address.tls ? { enableTLSForSentinelMode: true, sentinelTLS: {} } : {}),
      })
    }
    case 'cluster':
      return new Cluster([...address.nodes], {
        lazyConnect: true,
        enableOfflineQueue: role === 'consumer',
        clusterRetryStrategy: reconnectDelay,
        redisOptions: options,
      })
  }
}

/** Connects, or throws the reason after at most `CONNECT_TIMEOUT_MS`. Afterwards the client reconnects by itself. */
export async function connectRedis(client: RedisClient): Promise<void> {
  let reason: Error | undefined
  const rememberReason = (error: Error) => {
    reason = error
  }
  client.on('error', rememberReason)
  try {
    await withDeadline(CONNECT_TIMEOUT_MS, client.connect(), () => {
      throw new Error(NO_ANSWER)
    })
  } catch (error) {
    client.disconnect()
    // A command of the client that timed out says less than that nothing answered.
    throw reason === undefined || reason.message === 'Command timed out' ? error : reason
  } finally {
    client.off('error', rememberReason)
  }
}

/** Returns whether Redis merely cannot be reached, so that the same settings may work later. */
export function isRedisOutage(error: unknown): boolean {
  if (!(error instanceof Error) || REFUSAL.test(error.message)) return false
  const { lastNodeError } = error as { lastNodeError?: unknown }
  if (lastNodeError !== undefined && lastNodeError !== null) return isRedisOutage(lastNodeError)
  return isConnectionFailure(error) || OUTAGE.test(error.message) || NO_SENTINEL.test(error.message)
}

/**
 * Throws when Redis may evict keys: it would drop queued messages when its memory is full. Reads INFO of every master,
 * because managed services forbid CONFIG.
 */
export async function requireNoEviction(client: RedisClient): Promise<void> {
  const nodes = client instanceof Cluster ? client.nodes('master') : [client]
  for (const node of nodes) {
    const policy = /^maxmemory_policy:(\S+)/m.exec(await node.info('memory'))?.[1]
    if (policy !== 'noeviction')
      throw new Error(
        `Redis has maxmemory-policy ${policy ?? 'unknown'} and may drop messages; set maxmemory-policy noeviction`,
      )
  }
}
