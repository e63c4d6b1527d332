import { randomBytes } from 'node:crypto'
import { chown, mkdir, readFile, rename, rm, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { env } from 'node:process'
import { type GuardedProcessOptions, spawnGuarded } from '../processes/guarded-process.ts'
import { readCommandLine, waitForPreviousProcess } from '../processes/previous-process.ts'
import type { PostgresBinaries } from './postgres-binaries.ts'
import type { PostgresUser } from './postgres-user.ts'

/** The owner of everything. */
export const POSTGRES_ROLE = 'farebox'

/** Kept inside the data directory, whose readers can read the data anyway. */
const PASSWORD_FILE = 'farebox-password'

/** Higher than any system's largest process id. */
const IMPOSSIBLE_PID = 2_147_483_646

/** A cluster's directory, programs and user. */
export interface PostgresCluster {
  binaries: PostgresBinaries
  user: PostgresUser | undefined
  /** An absolute path. */
  dataDirectory: string
  log: ((line: string) => void) | undefined
}

/**
 * Prepares the data directory for a server: creates the cluster the first time, and releases the lock file after a crash.
 *
 * Returns the role's password, which is random and kept with the data.
 *
 * @throws Error when a server still runs on the directory, when it contains something else, or with initdb's message.
 */
export async function prepareCluster(cluster: PostgresCluster): Promise<string> {
  const passwordFile = join(cluster.dataDirectory, PASSWORD_FILE)
  const password = await readFile(passwordFile, 'utf8').catch(() => undefined)
  if (password === undefined) return initialize(cluster)
  await releaseLockFile(cluster.dataDirectory)
  return password
}

/** Returns the command line and user for one of PostgreSQL's programs. */
export function asPostgresUser(
  user: PostgresUser | undefined,
  command: string,
  args: readonly string[],
): GuardedProcessOptions {
  // A minimal environment: PG* variables of the caller's shell must not reach the server.
  const options = { cwd: '/', env: { PATH: env['PATH'], LC_ALL: 'C', TZ: 'UTC' } }
  if (user === undefined) return { ...options, command, args }
  const [program, ...prefix] = user.commandPrefix
  if (program === undefined) return { ...options, command, args, uid: user.uid, gid: user.gid }
  return { ...options, command: program, args: [...prefix, command, ...args] }
}

/** Creates the cluster next to its directory and moves it there when complete, so that a crash leaves no incomplete one. */
async function initialize({ binaries, user, dataDirectory, log }: PostgresCluster): Promise<string> {
  await removeEmptyDirectory(dataDirectory)
  const unfinished = `${dataDirectory}.initializing`
  const passwordFile = `${dataDirectory}.password`
  const password = randomBytes(24).toString('hex')
  await rm(unfinished, { recursive: true, force: true })
  await mkdir(unfinished, { mode: 0o700 })
  await writeFile(passwordFile, password, { mode: 0o600 })
  if (user !== undefined) await Promise.all([unfinished, passwordFile].map((path) => chown(path, user.uid, user.gid)))
  const identity = [`--username=${POSTGRES_ROLE}`, `--pwfile=${passwordFile}`, '--auth=scram-sha-256']
  // The builtin locale has the same order on every system.
  const text = ['--encoding=UTF8', '--locale-provider=builtin', '--builtin-locale=C.UTF-8', '--locale=C']
  const lines: string[] = []
  const initdb = spawnGuarded({
    ...asPostgresUser(user, binaries.initdb, ['-D', unfinished, ...identity, ...text, '--no-instructions']),
    log: (line) => lines.push(line),
  })
  const exit = await initdb.exited
  if (exit.code !== 0) throw new Error(`initdb failed: ${lines.join('\n')}`)
  log?.(`Created a PostgreSQL cluster in ${dataDirectory}`)
  await rename(passwordFile, join(unfinished, PASSWORD_FILE))
  await rename(unfinished, dataDirectory)
  return password
}

/** Removes an empty directory at the cluster's path; anything else is not ours to delete. */
async function removeEmptyDirectory(dataDirectory: string): Promise<void> {
  await rmdir(dataDirectory).catch((cause: NodeJS.ErrnoException) => {
    if (cause.code === 'ENOENT') return
    throw new Error(`${dataDirectory} contains something that is not a cluster of this sandbox`, { cause })
  })
}

/**
 * Makes the lock file of a crashed server harmless.
 *
 * PostgreSQL takes over a lock file whose process has ended, after checking that no session still uses the shared memory.
 * But process ids are reused, especially in a restarted container, and then it refuses to start. So when the recorded id
 * belongs to another process, an impossible one replaces it: deleting the file would skip that check.
 */
async function releaseLockFile(dataDirectory: string): Promise<void> {
  const lockFile = join(dataDirectory, 'postmaster.pid')
  const content = await readFile(lockFile, 'utf8').catch(() => undefined)
  if (content === undefined) return
  const [firstLine = '', ...rest] = content.split('\n')
  const pid = Number(firstLine)
  await waitForPreviousProcess(pid, dataDirectory)
  const isReused = (await readCommandLine(pid)) !== undefined
  // An earlier server that was shutting down may have removed its file in the meantime.
  const isUnchanged = (await readFile(lockFile, 'utf8').catch(() => undefined)) === content
  if (isReused && isUnchanged) await writeFile(lockFile, [IMPOSSIBLE_PID, ...rest].join('\n'))
}
