import { createHash } from 'node:crypto'
import { access, copyFile, cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parse } from 'yaml'
import { runProgram } from '../../support/processes/run-program.ts'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
const HERE = fileURLToPath(new URL('./images/', import.meta.url))
export const IMAGE = 'localhost/farebox:latest'
export const SECOND_IMAGE = 'localhost/farebox:second'
const DEBIAN = 'localhost/debian:bookworm-slim'
/** Runc refuses more than the hard limits of the caller. */
const LIMITS = ['--ulimit', 'nofile=1024:1024', '--ulimit', 'nproc=1000:1000']
/** Services of docker-compose.yml, and the folder of the image that takes the place of theirs. */
const STAND_INS = {
  postgres: 'postgres',
  redis: 'redis',
  proxy: 'caddy',
  objects: 'seaweedfs',
  prometheus: 'prometheus',
  alertmanager: 'prometheus',
} as const

/** Builds the image, and the same with another layer on top as the next version. */
export async function buildImages(): Promise<void> {
  await makeDebian()
  await makeNode()
  const revision = (await runProgram('git', ['-C', ROOT, 'rev-parse', 'HEAD'])).toString().trim()
  await build(ROOT, IMAGE, ['--build-arg', `REVISION=${revision}`, ...(await mounts(CERTIFICATES))])
  await withFolder(async (folder) => {
    await writeFile(join(folder, 'Dockerfile'), `FROM ${IMAGE}\nLABEL org.opencontainers.image.version=next\n`)
    await build(folder, SECOND_IMAGE)
  })
}

/** Builds images with the names in docker-compose.yml from Debian's packages, where they are not there yet. */
export async function buildStandIns(): Promise<void> {
  const text = await readFile(join(ROOT, 'docker-compose.yml'), 'utf8')
  const { services } = parse(text, { merge: true }) as { services: Record<string, { image: string }> }
  for (const [service, folder] of Object.entries(STAND_INS)) {
    const name = services[service]?.image ?? ''
    const hash = createHash('sha256')
    for (const file of (await readdir(join(HERE, folder))).sort()) hash.update(await readFile(join(HERE, folder, file)))
    const kept = `localhost/farebox-stand-in-${folder}:${hash.digest('hex').slice(0, 12)}`
    if (!(await exists(kept))) await build(join(HERE, folder), kept)
    await runProgram('podman', ['tag', kept, `docker.io/${name.includes('/') ? name : `library/${name}`}`])
  }
}

async function exists(image: string): Promise<boolean> {
  return await runProgram('podman', ['image', 'exists', image]).then(
    () => true,
    () => false,
  )
}

/** For npm. Not for packages of Debian, one of which would replace them. */
const CERTIFICATES = ['/etc/ssl/certs', '/usr/share/ca-certificates', '/usr/local/share/ca-certificates'] as const

/** Returns the arguments that mount what exists of these files while an image is built: they are in no layer. */
async function mounts(files: readonly string[]): Promise<readonly string[]> {
  const found: string[] = []
  for (const file of files) {
    const isThere = await access(file).then(
      () => true,
      () => false,
    )
    if (isThere) found.push('--volume', `${file}:${file.replace(homedir(), '/root')}:ro`)
  }
  return found
}

const below = async (directory: string, isMeant: (name: string) => boolean) =>
  (await readdir(directory)).filter(isMeant).map((name) => join(directory, name))

/** Builds with this machine's settings of npm and its sources of packages. */
async function build(folder: string, tag: string, args: readonly string[] = []): Promise<void> {
  const settings = await mounts([
    '/etc/npmrc',
    join(homedir(), '.npmrc'),
    ...(await below('/etc/apt/sources.list.d', (name) => name.endsWith('.sources'))),
    ...(await below('/etc/apt/apt.conf.d', (name) => name.startsWith('99'))),
  ])
  const certificates = process.env['NODE_EXTRA_CA_CERTS'] === undefined ? [] : ['--env', 'NODE_EXTRA_CA_CERTS']
  const all = [...LIMITS, '--format', 'docker', '--network', 'host', ...settings, ...certificates, ...args]
  await runProgram('podman', ['build', ...all, '--tag', tag, folder])
}

/** Debian's base, as published: without package lists and kept downloads, so that a build's own layers stay small. */
async function makeDebian(): Promise<void> {
  if (await exists(DEBIAN)) return
  await withFolder(async (folder) => {
    const [mirror = 'http://deb.debian.org/debian'] =
      /^URIs: *(\S+)/m.exec(await readFile('/etc/apt/sources.list.d/debian.sources', 'utf8'))?.slice(1) ?? []
    const root = join(folder, 'root')
    await runProgram('debootstrap', ['--variant=minbase', 'bookworm', root, mirror])
    for (const kept of ['var/lib/apt/lists', 'var/cache/apt/archives'])
      await rm(join(root, kept), { recursive: true, force: true })
    const archive = join(folder, 'root.tar')
    await runProgram('tar', ['-C', root, '-cf', archive, '.'])
    await runProgram('podman', ['import', archive, DEBIAN])
  })
}

/** The base that the Dockerfile names, of the npm package `node` of this repository, with the npm of this machine. */
async function makeNode(): Promise<void> {
  const [, name = ''] = /^FROM (\S+) AS packages$/m.exec(await readFile(join(ROOT, 'Dockerfile'), 'utf8')) ?? []
  if (await exists(`docker.io/library/${name}`)) return
  await withFolder(async (folder) => {
    await copyFile(join(ROOT, 'node_modules/node/bin/node'), join(folder, 'node'))
    const modules = (await runProgram('npm', ['root', '--global'])).toString().trim()
    await cp(join(modules, 'npm'), join(folder, 'npm'), { recursive: true })
    const lines = [
      `FROM ${DEBIAN}`,
      'COPY node /usr/local/bin/node',
      'COPY npm /usr/local/lib/node_modules/npm',
      'RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm && useradd --uid 1000 --user-group --create-home node',
      'CMD ["node"]',
    ]
    await writeFile(join(folder, 'Dockerfile'), `${lines.join('\n')}\n`)
    await build(folder, `docker.io/library/${name}`)
  })
}

async function withFolder(work: (folder: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'farebox-images-'))
  try {
    await work(folder)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
