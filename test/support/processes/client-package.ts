import { execFile } from 'node:child_process'
import { cp, mkdir, symlink } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

export const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
const run = promisify(execFile)

/**
 * Copies the client's sources with the repository's packages, so that a build of them leaves the one alone that others
 * run. Returns the copy's folder.
 */
export async function copyClient(folder: string): Promise<string> {
  const copy = join(folder, 'client')
  await cp(join(ROOT, 'client'), copy, { recursive: true, filter: isSource })
  await cp(join(ROOT, 'packages'), join(folder, 'packages'), { recursive: true })
  await cp(join(ROOT, 'tsconfig.json'), join(folder, 'tsconfig.json'))
  for (const modules of ['node_modules', 'client/node_modules'])
    await symlink(join(ROOT, modules), join(folder, modules))
  return copy
}

function isSource(path: string): boolean {
  return !/\/client\/(dist|node_modules)$/.test(path)
}

/** Builds a copy as `npm ci` does. */
export async function buildClient(copy: string): Promise<void> {
  await npm(['run', 'build'], copy)
}

/** Packs a copy as it is published, with its types checked. Returns the tarball's path. */
export async function packClient(copy: string): Promise<string> {
  const { stdout } = await npm(['pack', '--json'], copy)
  const [packed] = JSON.parse(stdout.slice(stdout.indexOf('['))) as { filename: string }[]
  return join(copy, packed?.filename ?? '')
}

/** Installs a tarball into an empty folder. Packages come from npm's cache if it has them, as after `npm ci`. */
export async function installTarball(tarball: string, folder: string): Promise<void> {
  await mkdir(folder, { recursive: true })
  await npm(['install', '--prefix', folder, '--prefer-offline', '--no-audit', '--no-fund', tarball], folder)
}

/** Far longer than npm needs: it was seen to wait for nothing, without a connection, until it was ended. */
const LONGEST_NPM_MS = 300_000

/**
 * Runs the user's npm, without the settings of the npm that runs the tests; once more when it hangs, since what it does
 * here may be repeated.
 */
async function npm(args: readonly string[], cwd: string, isRepeated = false): Promise<{ stdout: string }> {
  const own = Object.entries(process.env).filter(([name]) => !/^(npm_|NODE_ENV$|INIT_CWD$)/.test(name))
  const options = { cwd, env: Object.fromEntries(own), maxBuffer: 2 ** 26, timeout: LONGEST_NPM_MS } as const
  try {
    return await run('npm', args, { ...options, killSignal: 'SIGKILL' })
  } catch (error) {
    if (isRepeated || !(error instanceof Error && 'killed' in error && error.killed === true)) throw error
    return await npm(args, cwd, true)
  }
}

/** Returns the Node of the user's PATH, which runs npm, and is another version than that of the tests if it can be. */
export async function systemNode(): Promise<{ path: string; version: string }> {
  const folders = (process.env['PATH'] ?? '').split(delimiter).filter((folder) => !folder.includes('node_modules'))
  const { stdout } = await run('node', ['--print', '`${process.execPath} ${process.version}`'], {
    env: { ...process.env, PATH: folders.join(delimiter) },
  })
  const [path = '', version = ''] = stdout.trim().split(' ')
  return { path, version }
}
