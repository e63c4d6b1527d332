import { readFile, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'

/** The repository's, and that of the tests with SDKs. */
const LOCKFILES = ['package-lock.json', 'test/sdks/package-lock.json'].map((path) =>
  fileURLToPath(new URL(`../../../${path}`, import.meta.url)),
)
const OS = /android|darwin|freebsd|linux|netbsd|openbsd|sunos|aix|win32|windows|openharmony/
const CPU = /-(amd64|x64|arm64|ia32|riscv64|ppc64|s390x|loong64|mips64el|arm)/
/** Without it npm installs the builds for both. */
const LIBC = /linux.*-(gnu|musl)(?:eabihf)?$/

interface LockedPackage {
  version?: string
  dev?: boolean
  optional?: boolean
  os?: string[]
  cpu?: string[]
  libc?: string[]
  optionalDependencies?: Record<string, string>
}

interface Lockfile {
  packages: Record<string, LockedPackage>
}

/**
 * Adds the platform packages that npm left out of a lockfile because its registry does not have them. `npm ci` rejects
 * a lockfile that lacks an optional dependency, even one for another platform. Run it after every `npm install`
 * against a partial mirror; against the full registry it changes nothing.
 */
for (const path of LOCKFILES) {
  const lockfile = JSON.parse(await readFile(path, 'utf8')) as Lockfile
  const added = complete(lockfile)
  await writeFile(path, `${JSON.stringify(lockfile, null, 2)}\n`)
  console.log(added.length === 0 ? `${path} is complete.` : `${path}: added ${added.length}: ${added.join(', ')}.`)
}

/** Adds what is missing, sorts the packages, and returns what was added. */
function complete(lockfile: Lockfile): readonly string[] {
  const added: string[] = []
  for (const [path, { optionalDependencies = {}, dev }] of Object.entries(lockfile.packages)) {
    for (const [name, range] of Object.entries(optionalDependencies)) {
      if (isLocked(lockfile, path, name)) continue
      lockfile.packages[`node_modules/${name}`] = {
        version: lowestVersion(range),
        ...platformOf(name),
        ...(dev ? { dev } : {}),
        optional: true,
      }
      added.push(`${name}@${range}`)
    }
  }
  lockfile.packages = Object.fromEntries(
    Object.entries(lockfile.packages).sort(([left], [right]) => (left < right ? -1 : 1)),
  )
  return added
}

/** Returns whether Node would resolve `name` from `path`: next to the package or in any folder above it. */
function isLocked(lockfile: Lockfile, path: string, name: string): boolean {
  for (let folder = path; ; folder = folder.slice(0, Math.max(folder.lastIndexOf('/node_modules/'), 0))) {
    if (lockfile.packages[`${folder === '' ? '' : `${folder}/`}node_modules/${name}`]) return true
    if (folder === '' || !folder.includes('node_modules')) return false
    if (!folder.includes('/node_modules/')) folder = ''
  }
}

function lowestVersion(range: string): string {
  const version = /\d+\.\d+\.\d+[-.\w]*/.exec(range)?.[0]
  if (!version) throw new Error(`The range ${range} contains no version.`)
  return version
}

/** Derives `os`, `cpu` and `libc` from the name of a platform package. */
function platformOf(name: string): Pick<LockedPackage, 'os' | 'cpu' | 'libc'> {
  const os = OS.exec(name)?.[0]
  const cpu = CPU.exec(name)?.[1]
  const libc = LIBC.exec(name)?.[1]
  return {
    ...(os === undefined ? {} : { os: [os === 'windows' ? 'win32' : os] }),
    ...(cpu === undefined ? {} : { cpu: [cpu === 'amd64' ? 'x64' : cpu] }),
    ...(libc === undefined ? {} : { libc: [libc === 'gnu' ? 'glibc' : libc] }),
  }
}
