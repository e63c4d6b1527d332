import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { cp, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { promisify } from 'node:util'
import { type Zippable, zipSync } from 'fflate'

const run = promisify(execFile)

export interface BundleSources {
  /** The repository, whose lockfile fixes the packages. */
  readonly root: string
  /** The client's folder, which is built here. */
  readonly client: string
  readonly packageName: string
  readonly manifest: object
}

/** Tests, types, sources and source maps of packages, and what npm wrote; the optional compiler of viem's types is 27 MB. */
const LEFT_OUT =
  /\.([mc]?ts|map)$|(^|\/)(package-lock\.json|tsconfig\.json|\.[^/]+)$|^node_modules\/(\.[^/]+|@?typescript)\//
const HIGHEST_COMPRESSION = 9
/** ZIP's number of the systems that have permissions; an entry has them in the upper half of its attributes. */
const UNIX = 3

/** Packs the client as it is published, with the packages of the lockfile that it runs with, into a bundle. */
export async function packBundle({ root, client, packageName, manifest }: BundleSources, output: string) {
  const folder = await mkdtemp(join(tmpdir(), 'farebox-bundle-'))
  try {
    const bundle = join(folder, 'bundle')
    await installPackages(root, client, bundle)
    await unpackClient(client, folder, join(bundle, 'node_modules', packageName))
    await rm(join(bundle, 'client'), { recursive: true })
    await writeFile(join(bundle, 'package.json'), '{ "private": true, "type": "module" }\n')
    await writeFile(join(bundle, 'manifest.json'), `${JSON.stringify(manifest, null, 2)}\n`)
    await writeFile(output, zipSync(await filesOf(bundle), { level: HIGHEST_COMPRESSION }))
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Installs what the client depends on, in the versions and with the digests of the lockfile. */
async function installPackages(root: string, client: string, bundle: string): Promise<void> {
  await mkdir(join(bundle, 'client'), { recursive: true })
  for (const file of ['package.json', 'package-lock.json']) await cp(join(root, file), join(bundle, file))
  await cp(join(client, 'package.json'), join(bundle, 'client/package.json'))
  const production = ['--workspace', 'client', '--include-workspace-root=false', '--omit=dev', '--ignore-scripts']
  await npm(['ci', ...production, '--prefer-offline', '--no-audit', '--no-fund'], bundle)
}

/** Puts the packed client in the place of the link to the workspace, with the packages that it has for itself. */
async function unpackClient(client: string, folder: string, place: string): Promise<void> {
  const { stdout } = await npm(['pack', '--json', '--pack-destination', folder], client)
  const [packed] = JSON.parse(stdout.slice(stdout.indexOf('['))) as { filename: string }[]
  await rm(place)
  await mkdir(place)
  await run('tar', ['-xzf', join(folder, packed?.filename ?? ''), '--strip-components=1', '-C', place])
  const own = join(place, '../../client/node_modules')
  // Absent where the root has the same versions of all.
  if (existsSync(own)) await cp(own, join(place, 'node_modules'), { recursive: true })
}

/** Reads what belongs in the bundle, with its permissions. */
async function filesOf(bundle: string): Promise<Zippable> {
  const files: Zippable = {}
  for (const entry of await readdir(bundle, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name)
    const name = relative(bundle, path)
    if (!entry.isFile() || LEFT_OUT.test(name)) continue
    const { mode } = await stat(path)
    files[name] = [await readFile(path), { os: UNIX, attrs: (mode & 0o777) << 16 }]
  }
  return files
}

/** Runs the user's npm, without the settings of an npm that runs this program. */
async function npm(args: readonly string[], cwd: string): Promise<{ stdout: string }> {
  const own = Object.entries(process.env).filter(([name]) => !/^(npm_|NODE_ENV$|INIT_CWD$)/.test(name))
  return await run('npm', args, { cwd, env: Object.fromEntries(own), maxBuffer: 2 ** 26 })
}
