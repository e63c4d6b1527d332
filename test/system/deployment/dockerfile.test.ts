import { execFile } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { findFfmpeg } from '#shared/runtime/find-ffmpeg.ts'
import { executeDockerfile, type PlainImage, parseDockerfile } from '../../support/deployment/plain-dockerfile.ts'
import { payForCall } from '../../support/payer/paid-call.ts'
import { havePrograms } from '../../support/processes/optional-program.ts'
import { startTestSandbox, type TestSandbox } from '../../support/processes/test-sandbox.ts'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
const run = promisify(execFile)
/** All that an operator runs; the others are of the repository, or are run below. */
const OTHERS = ['check-health', 'complete-lockfile', 'configuration', 'ledger', 'migrate']
const COMMANDS = (await readdir(join(ROOT, 'infra/commands'))).filter(
  (name) => !name.endsWith('.ts') && !OTHERS.includes(name),
)

/** Returns name and version of every package below a folder's `node_modules`. */
async function packagesBelow(directory: string): Promise<readonly string[]> {
  const lock = z
    .object({ packages: z.record(z.string(), z.object({ version: z.string() })) })
    .parse(JSON.parse(await readFile(join(directory, 'node_modules/.package-lock.json'), 'utf8')))
  return Object.entries(lock.packages).map(([path, { version }]) => `${path.split('node_modules/').at(-1)}@${version}`)
}

describe.skipIf(!havePrograms('ffmpeg'))('the image, built in a plain folder', () => {
  let folder: string
  let image: PlainImage
  let sandbox: TestSandbox
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'farebox-image-'))
    image = await executeDockerfile(await parseDockerfile(join(ROOT, 'Dockerfile')), ROOT, folder)
    // The tested processes listen on loopback, and ffmpeg may be elsewhere on this machine.
    const { HOST: _, METRICS_HOST: __, OPERATOR_HOST: ___, FFMPEG_PATH: ____, ...others } = image.environment
    const ffmpegPath = await findFfmpeg({ searchPath: process.env['PATH'], packagedPath: () => undefined })
    const settings = { ...others, FFMPEG_PATH: ffmpegPath ?? '' }
    const entryOf = (path: string) => relative(ROOT, join(image.directory, path))
    sandbox = await startTestSandbox({
      apiEntry: entryOf(image.command[0] ?? ''),
      workerEntry: entryOf('workers/main.ts'),
      operatorEntry: entryOf('operator/main.ts'),
      operator: true,
      apiEnvironment: settings,
      workerEnvironment: settings,
    })
  })
  afterAll(async () => {
    await sandbox.stop()
    await rm(folder, { recursive: true, force: true })
  })

  const runInImage = (args: readonly string[], environment: Record<string, string> = {}) =>
    run(process.execPath, args, { cwd: image.directory, env: { PATH: '/usr/bin:/bin', ...environment } })

  test('the image contains only the required files', async () => {
    expect((await readdir(image.directory)).sort()).toEqual(
      [
        '.compiled',
        'LICENSE',
        'api',
        'infra',
        'node_modules',
        'notices',
        'operator',
        'package.json',
        'packages',
        'shared',
        'workers',
      ].sort(),
    )
    expect((await readdir(join(image.directory, 'infra'))).sort()).toEqual([
      'commands',
      'contracts',
      'paid-call.ts',
      'sandbox',
      'terminal.ts',
    ])
    const packages = await readdir(join(image.directory, 'node_modules'))
    expect(packages).not.toEqual(
      expect.arrayContaining([expect.stringMatching(/^(typescript|vitest|solc|node|oxlint|farebox)$/)]),
    )
  })

  test('the instructions that the test skips build the distribution’s ffmpeg and add what it loads', () => {
    const [build, install, program, copyright, folders, ...others] = image.notRun
    expect(build).toMatch(/apt-get source ffmpeg/)
    expect(install).toMatch(/apt-get install --yes --no-install-recommends libmp3lame0\s/)
    expect(program).toBe('COPY /build/ffmpeg /usr/bin/ffmpeg')
    expect(copyright).toBe('COPY /build/copyright /usr/share/doc/ffmpeg/copyright')
    expect(folders).toMatch(/^install --directory --owner=1000 --group=1000 \.compiled\s/)
    expect(others).toEqual([])
    expect(image.environment['FFMPEG_PATH']).toBe('/usr/bin/ffmpeg')
  })

  test('the image names its version, and what it contains with the licenses', async () => {
    const { version, license } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'))
    expect(image.labels).toMatchObject({
      'org.opencontainers.image.version': version,
      'org.opencontainers.image.licenses': license,
    })
    const notices = join(image.directory, 'notices')
    const listed = z
      .object({ packages: z.array(z.object({ name: z.string(), versionInfo: z.string() })) })
      .parse(JSON.parse(await readFile(join(notices, 'npm-packages.spdx.json'), 'utf8')))
    const names = new Set(listed.packages.map(({ name, versionInfo }) => `${name}@${versionInfo}`))
    const installed = await packagesBelow(image.directory)
    expect(installed.length).toBeGreaterThan(150)
    expect(installed.filter((name) => !names.has(name))).toEqual([])
    const licenses = await readFile(join(notices, 'npm-licenses.txt'), 'utf8')
    expect(licenses).toContain('==> node_modules/viem/LICENSE <==')
  })

  test('the image has no file below node_modules that Node cannot load', async () => {
    const files = await readdir(join(image.directory, 'node_modules'), { recursive: true })
    expect(files.length).toBeGreaterThan(5000)
    expect(files.filter((file) => /\.([cm]?ts|map)$/.test(file))).toEqual([])
  })

  test('the image brings the compiled code that its programs start with', async () => {
    const compiled = async () => (await readdir(join(image.directory, '.compiled'), { recursive: true })).length
    expect(image.environment['NODE_COMPILE_CACHE']).toBe(join(image.directory, '.compiled'))
    const brought = await compiled()
    expect(brought).toBeGreaterThan(1000)
    const start = ['--import', './api/dependencies.ts', '--import', './api/start-api.ts', '--eval', '0']
    await runInImage(start, { NODE_COMPILE_CACHE: join(image.directory, '.compiled') })
    expect(await compiled()).toBe(brought)
  })

  test('API and worker of the image serve a paid transcription', async () => {
    const body = { model: 'speechvendor/scribe-v2', audio_base64: sandbox.sample.toString('base64') }
    const { answer, bytes } = await payForCall(sandbox, '/v1/audio/transcriptions', body)
    expect(answer.status).toBe(200)
    expect(JSON.parse(bytes.toString()).text.length).toBeGreaterThan(10)
  })

  test('the image migrates, and reconciles the ledger with the chain', async () => {
    const { databaseUrl, rpcUrl } = sandbox.info
    const migrated = await runInImage(['infra/commands/migrate/main.ts'], { DATABASE_URL: databaseUrl })
    expect(migrated.stdout).toContain('up to date')
    const ledger = await runInImage(['infra/commands/ledger/main.ts'], { DATABASE_URL: databaseUrl, RPC_URL: rpcUrl })
    expect(ledger.stdout).toContain('agree to the atomic unit')
  })

  test.each(COMMANDS)('infra/commands/%s/main.ts runs in the image', async (name) => {
    expect((await runInImage([`infra/commands/${name}/main.ts`, '--help'])).stdout).toContain('Usage:')
  })

  test('the console of the image serves its sign-in, styles and scripts', async () => {
    const { operator } = sandbox.info
    const page = await fetch(`${operator?.url}/sign-in`)
    expect(page.status).toBe(200)
    const parts = [...(await page.text()).matchAll(/(?:src|href)="(\/operator\/assets\/[^"]+)"/g)].map(
      ([, path]) => path,
    )
    expect(parts.length).toBeGreaterThan(2)
    for (const path of parts) expect((await fetch(new URL(path ?? '', operator?.url))).status).toBe(200)
  })

  test('the image’s health check distinguishes a running API from a closed port', async () => {
    const [program, script = '', url = ''] = image.healthCheck
    expect(program).toBe('node')
    const at = (base: string) => runInImage([script, `${base}${new URL(url).pathname}`])
    expect((await at(sandbox.info.baseUrl)).stdout).toContain('answers 200')
    await expect(at('http://127.0.0.1:1')).rejects.toMatchObject({ code: 1 })
  })

  test('SIGTERM shuts down the image’s API gracefully', async () => {
    expect(image.entrypoint).toEqual(['node'])
    process.kill(sandbox.pidOf('api'), 'SIGTERM')
    expect(await sandbox.crashed).toEqual({ part: 'api', exit: { code: 0, signal: null } })
  })
})
