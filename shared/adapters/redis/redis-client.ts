import { setTimeout as delay } from 'node:timers/promises'
import { Cluster, Redis, type RedisOptions } from 'ioredis'
import type { QueueAddress } from '#shared/jobs/queue-url.ts'

export type RedisAddress = Exclude<QueueAddress, { kind: 'postgres' }>
export type RedisClient = Redis | Cluster

const CONNECT_TIMEOUT_MS = 5000
const MAXIMUM_RECONNECT_DELAY_MS = 2000
/** Limit of one command. Adding a message takes less than a millisecond. */
const COMMAND_TIMEOUT_MS = 2000

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
  const deadline = new AbortController()
  try {
    await Promise.race([
      client.connect(),
      delay(CONNECT_TIMEOUT_MS, undefined, { signal: deadline.signal }).then(() => {
        throw new Error('no answer in time')
      }),
    ])
  } catch (error) {
    client.disconnect()
    throw reason ?? error
  } finally {
    deadline.abort()
    client.off('error', rememberReason)
  }
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
