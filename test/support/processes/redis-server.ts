import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createConnection } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { findFreePort } from '../../../infra/sandbox/processes/free-port.ts'
import { type GuardedProcess, spawnGuarded } from '../../../infra/sandbox/processes/guarded-process.ts'
import { PATIENCE_MS } from '../patience.ts'
import { havePrograms } from './optional-program.ts'

export interface TestRedis {
  readonly port: number
  /** Process id of the supervising shell, whose child the server is. */
  readonly pid: number
  readonly url: string
  /** A connection for the test. */
  readonly client: Redis
  /** Kills the server and starts it again on the same port, with the data that `options` let it keep. */
  restart(): Promise<void>
  /** Kills the server. */
  kill(): Promise<void>
  /** Suspends the server: connections stay open, nothing is answered. */
  pause(): void
  stop(): Promise<void>
}

/** Whether `redis-server` is installed. Warns when it is not, and throws with `CI=true`. */
export const haveRedis = () => havePrograms('redis-server')

/** Persistence as operators must configure it: a crash loses at most the last second. */
export const DURABLE_REDIS = ['appendonly yes', 'appendfsync everysec', 'maxmemory-policy noeviction'] as const

/** Starts Redis on a free loopback port; `options` are lines of redis.conf. Persistence is off by default. */
export async function startTestRedis(options: readonly string[] = []): Promise<TestRedis> {
  const port = await findFreePort()
  const directory = await mkdtemp(join(tmpdir(), 'farebox-redis-'))
  const configFile = join(directory, 'redis.conf')
  // A file, because a sentinel rewrites its configuration.
  const lines = [`port ${port}`, 'bind 127.0.0.1', `dir ${directory}`, 'save ""', 'appendonly no', ...options]
  const start = async () => {
    await writeFile(configFile, `${lines.join('\n')}\n`)
    const sentinel = options.some((line) => line.startsWith('sentinel '))
    const server = spawnGuarded({ command: 'redis-server', args: [configFile, ...(sentinel ? ['--sentinel'] : [])] })
    await untilListening(port, server)
    return server
  }
  let server = await start()
  const client = new Redis({ port, host: '127.0.0.1', lazyConnect: true })
  client.on('error', () => undefined)
  const kill = () => server.stop({ signal: 'SIGKILL' })
  return {
    port,
    get pid() {
      return server.pid
    },
    url: `redis://127.0.0.1:${port}`,
    client,
    kill,
    pause: () => {
      process.kill(server.pid, 'SIGSTOP')
    },
    restart: async () => {
      await kill()
      server = await start()
    },
    stop: async () => {
      client.disconnect()
      await kill()
      await rm(directory, { recursive: true, force: true })
    },
  }
}

async function untilListening(port: number, server: GuardedProcess): Promise<void> {
  for (const startedAt = Date.now(); Date.now() - startedAt < PATIENCE_MS;) {
    if (await accepts(port)) return
    const exit = await Promise.race([server.exited, delay(20, null)])
    if (exit) throw new Error(`redis-server ended before it listened: ${exit.signal ?? `code ${exit.code}`}`)
  }
  throw new Error('redis-server does not listen')
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createConnection({ port, host: '127.0.0.1' })
    socket.once('connect', () => resolve(true))
    socket.once('error', () => resolve(false))
    socket.once('connect', () => socket.destroy())
  })
}
