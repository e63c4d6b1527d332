import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { execa } from 'execa'

/** Runs a command with a disk of its own, which no other process sees and which ends with it. */
const MOUNT = 'mount -t tmpfs -o size="$1" tmpfs "$2" && shift 2 && exec "$@"'

/** Whether a process may have mounts of its own here: as root, or where the system lets anyone have them. */
export function canHaveSmallDisk(): boolean {
  const folder = mkdtempSync(join(tmpdir(), 'farebox-disk-'))
  try {
    execFileSync('unshare', [...unshareArguments(), 'sh', '-c', MOUNT, 'sh', '16k', folder, 'true'], { stdio: 'pipe' })
    return true
  } catch (error) {
    const message = `These tests need "unshare" with the right to mount a tmpfs: ${String(error)}`
    if (process.env['CI'] === 'true') throw new Error(message, { cause: error })
    console.warn(`SKIPPED. ${message}`)
    return false
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

interface SmallDisk {
  /** Such as `64k`. */
  readonly size: string
  /** Where the disk is mounted; must exist. */
  readonly at: string
}

/** Runs a program to its end in a process to which `at` is a small disk. */
export async function runOnSmallDisk(
  { size, at }: SmallDisk,
  command: readonly string[],
  env: Readonly<Record<string, string>> = {},
) {
  const { exitCode, stdout, stderr } = await execa(
    'unshare',
    [...unshareArguments(), 'sh', '-c', MOUNT, 'sh', size, at, ...command],
    { env, reject: false },
  )
  return { exitCode, stdout, stderr }
}

function unshareArguments(): string[] {
  return process.getuid?.() === 0 ? ['--mount'] : ['--map-root-user', '--mount']
}
