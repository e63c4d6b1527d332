import { execFile } from 'node:child_process'
import { stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { getuid, platform } from 'node:process'
import { promisify } from 'node:util'

/** The ordinary user as whom PostgreSQL runs when this process runs as root. */
export interface PostgresUser {
  uid: number
  gid: number
  /** When not empty, it stands before the command and changes the user itself; the process is then started as root. */
  commandPrefix: readonly string[]
}

/**
 * Decides as whom PostgreSQL runs, since it refuses to run as root: as ourselves (undefined) unless we are root, then as
 * `postgres`, or as `nobody` where that does not exist. No user is created.
 *
 * A container often has its checkout below `/root`, which no other user can enter. Rather than to open folders that are
 * not ours, the user then gets the one capability to pass them (Linux only).
 *
 * @param paths absolute paths of files and folders that PostgreSQL has to reach.
 * @throws Error when a path is out of that user's reach and the system cannot grant it.
 */
export async function choosePostgresUser(paths: readonly string[]): Promise<PostgresUser | undefined> {
  if (getuid?.() !== 0) return undefined
  const user = (await lookUpUser('postgres')) ?? (await lookUpUser('nobody'))
  if (user === undefined) throw new Error('PostgreSQL refuses to run as root, and there is no user postgres or nobody')
  const obstacle = await findObstacle(paths, user)
  if (obstacle === undefined) return { ...user, commandPrefix: [] }
  const commandPrefix = passingPrivateFolders(user)
  if (platform === 'linux' && (await succeeds(commandPrefix, 'true'))) return { ...user, commandPrefix }
  throw new Error(`PostgreSQL refuses to run as root, and its user cannot reach ${obstacle}; run as an ordinary user`)
}

async function lookUpUser(name: string): Promise<{ uid: number; gid: number } | undefined> {
  const run = promisify(execFile)
  const ids = await Promise.all([run('id', ['-u', name]), run('id', ['-g', name])]).catch(() => undefined)
  return ids === undefined ? undefined : { uid: Number(ids[0].stdout), gid: Number(ids[1].stdout) }
}

/** Gives the first file or folder on the way to `paths` that the user may not enter or run. */
async function findObstacle(paths: readonly string[], user: { uid: number; gid: number }): Promise<string | undefined> {
  for (const path of paths) {
    for (let current = path; ; current = dirname(current)) {
      if (!mayEnter(await stat(current), user)) return current
      if (current === dirname(current)) break
    }
  }
  return undefined
}

function mayEnter(status: { uid: number; gid: number; mode: number }, user: { uid: number; gid: number }): boolean {
  if (status.uid === user.uid) return (status.mode & 0o100) !== 0
  if (status.gid === user.gid) return (status.mode & 0o010) !== 0
  return (status.mode & 0o001) !== 0
}

function passingPrivateFolders({ uid, gid }: { uid: number; gid: number }): string[] {
  const identity = ['--reuid', String(uid), '--regid', String(gid), '--clear-groups']
  return ['setpriv', ...identity, '--inh-caps', '+dac_override', '--ambient-caps', '+dac_override', '--']
}

function succeeds([program = '', ...args]: readonly string[], command: string): Promise<boolean> {
  return promisify(execFile)(program, [...args, command]).then(
    () => true,
    () => false,
  )
}
