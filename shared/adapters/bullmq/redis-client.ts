import { setTimeout as delay } from 'node:timers/promises'
import { Cluster, Redis, type RedisOptions } from 'ioredis'
import type { QueueAddress } from '#shared/jobs/queue-url.ts'
import { CONNECT_TIMEOUT_MS } from './queue-engine.ts'

export type RedisAddress = Exclude<QueueAddress, { kind: 'postgres' }>
export type RedisClient = Redis | Cluster

const LONGEST_RECONNECT_PAUSE_MS = 2000
/** A command that is not answered within this time fails; adding a message takes less than a millisecond. */
const COMMAND_TIMEOUT_MS = 2000

const reconnectPause = (attempt: number) => Math.min(attempt * 100, LONGEST_RECONNECT_PAUSE_MS)

/**
 * `producer`: a command fails at once while Redis is away, because a caller waits for it. `consumer`: commands wait for the
 * reconnection, as BullMQ's workers require.
 */
export type RedisRole = 'producer' | 'consumer'

/** A client that is not connected yet. */
export function createRedisClient(address: RedisAddress, role: RedisRole): RedisClient {
  const options = {
    lazyConnect: true,
    connectTimeout: CONNECT_TIMEOUT_MS,
    keepAlive: 10_000,
    retryStrategy: reconnectPause,
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
        sentinelRetryStrategy: reconnectPause,
        ...(address.tls ? { enableTLSForSentinelMode: true, sentinelTLS: {} } : {}),
      })
    }
    case 'cluster':
      return new Cluster([...address.nodes], {
        lazyConnect: true,
        enableOfflineQueue: role === 'consumer',
        clusterRetryStrategy: reconnectPause,
        redisOptions: options,
      })
  }
}

/** Connects, or throws the reason within some seconds. Later losses are repaired by the client itself. */
export async function connectRedis(client: RedisClient): Promise<void> {
  let reason: Error | undefined
  const remember = (error: Error) => {
    reason = error
  }
  client.on('error', remember)
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
    client.off('error', remember)
  }
}

/**
 * Throws when Redis may evict keys: queued messages would vanish whenever its memory runs full. Asked of every master,
 * through INFO, because managed services forbid CONFIG.
 */
export async function requireNoEviction(client: RedisClient): Promise<void> {
  const nodes = client instanceof Cluster ? client.nodes('master') : [client]
  for (const node of nodes) {
    const policy = /^maxmemory_policy:(\S+)/m.exec(await node.info('memory'))?.[1]
    if (policy !== 'noeviction')
      throw new Error(
        `Redis has maxmemory-policy ${policy ?? 'unknown'} and may throw messages away; set maxmemory-policy noeviction`,
      )
  }
}
