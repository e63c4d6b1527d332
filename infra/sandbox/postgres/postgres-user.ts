import { execFile } from 'node:child_process'
import { stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { getuid, platform } from 'node:process'
import { promisify } from 'node:util'

/** The unprivileged user for PostgreSQL when this process runs as root. */
export interface PostgresUser {
  uid: number
  gid: number
  /** When not empty, this prefix of the command changes the user, and the process is started as root. */
  commandPrefix: readonly string[]
}

/**
 * Chooses the user for PostgreSQL, which refuses to run as root: the current user (undefined) unless that is root, then
 * `postgres`, or `nobody` where that does not exist. Creates no user.
 *
 * A container often has its data below `/root`, which no other user can enter. Instead of changing the permissions of
 * such folders, the user then receives the single capability to enter them (Linux only). Its programs have to be reachable
 * without it: PostgreSQL asks access(2) for them, which ignores capabilities.
 *
 * @param programs absolute paths of PostgreSQL's programs; `directory` of the folder that receives its data.
 * @throws Error when that user cannot reach a path and the system cannot grant access.
 */
export async function choosePostgresUser(
  programs: readonly string[],
  directory: string,
): Promise<PostgresUser | undefined> {
  if (getuid?.() !== 0) return undefined
  const user = (await lookUpUser('postgres')) ?? (await lookUpUser('nobody'))
  if (user === undefined) throw new Error('PostgreSQL refuses to run as root, and there is no user postgres or nobody')
  const locked = await findObstacle(programs, user)
  const obstacle = locked ?? (await findObstacle([directory], user))
  if (obstacle === undefined) return { ...user, commandPrefix: [] }
  const commandPrefix = privateFolderPrefix(user)
  if (locked === undefined && platform === 'linux' && (await succeeds(commandPrefix, 'true')))
    return { ...user, commandPrefix }
  throw new Error(
    `PostgreSQL refuses to run as root, and the user that it runs as (id ${user.uid}) cannot enter ${obstacle}: allow it (chmod o+x ${obstacle}), move the checkout, or run as an ordinary user`,
  )
}

async function lookUpUser(name: string): Promise<{ uid: number; gid: number } | undefined> {
  const run = promisify(execFile)
  const ids = await Promise.all([run('id', ['-u', name]), run('id', ['-g', name])]).catch(() => undefined)
  return ids === undefined ? undefined : { uid: Number(ids[0].stdout), gid: Number(ids[1].stdout) }
}

/** Returns the first file or folder on the way to `paths` that the user may not enter or execute. */
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

function privateFolderPrefix({ uid, gid }: { uid: number; gid: number }): string[] {
  const identity = ['--reuid', String(uid), '--regid', String(gid), '--clear-groups']
  return ['setpriv', ...identity, '--inh-caps', '+dac_override', '--ambient-caps', '+dac_override', '--']
}

function succeeds([program = '', ...args]: readonly string[], command: string): Promise<boolean> {
  return promisify(execFile)(program, [...args, command]).then(
    () => true,
    () => false,
  )
}
