import { type ChildProcess, exec, execFile, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { getuid } from 'node:process'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Client, type QueryResult } from 'pg'
import { afterAll, beforeAll, describe, expect, it, onTestFinished, test } from 'vitest'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { createPayingClient } from '../../../infra/sandbox/paying-client.ts'
import { startPostgres } from '../../../infra/sandbox/postgres/embedded-postgres.ts'
import { choosePostgresUser } from '../../../infra/sandbox/postgres/postgres-user.ts'
import { type ProcessExit, spawnGuarded } from '../../../infra/sandbox/processes/guarded-process.ts'
import { readCommandLine } from '../../../infra/sandbox/processes/previous-process.ts'
import type { SandboxInfo } from '../../../infra/sandbox/sandbox.ts'
import { objectsInBucket } from '../../resilience/checker/read-objects.ts'
import { startTestDevnet } from '../../support/chain/devnet.ts'
import { wordErrorRate } from '../../support/media/word-errors.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { isRunning } from '../../support/processes/is-running.ts'
import { havePrograms } from '../../support/processes/optional-program.ts'
import { haveRedis, startTestRedis } from '../../support/processes/redis-server.ts'
import { haveS3, startTestS3 } from '../../support/processes/s3-server.ts'
import { until } from '../../support/until.ts'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
const START = join(ROOT, 'infra/sandbox/main.ts')
const SAMPLE = fileURLToPath(new URL('../../../infra/sandbox/samples/two-at-the-stop.mp3', import.meta.url))
/** Registered as soon as they are spawned: one that never becomes ready must be stopped as well. */
const started: Pick<Started, 'supervisor' | 'exitCode'>[] = []
interface Started {
  supervisor: ChildProcess
  exitCode: Promise<number | null>
  output: () => string
  info: SandboxInfo
  sandboxFile: string
}
async function expectNothingRuns({ info }: Started) {
  await until(() => Object.values(info.pids).every((pid) => !isRunning(pid)))
  const console = info.operator?.url ?? 'missing'
  for (const url of [info.baseUrl, info.rpcUrl, info.upstreamUrl, info.databaseUrl, console])
    await until(() => refusesConnections(new URL(url)))
}
async function expectNothingLeft(sandbox: Started) {
  await expectNothingRuns(sandbox)
  // Removed last, after every part has stopped.
  await until(() => !existsSync(sandbox.sandboxFile))
}
async function expectStops(sandbox: Started, signal: 'SIGTERM' | 'SIGINT') {
  sandbox.supervisor.kill(signal)
  expect(await sandbox.exitCode).toBe(0)
  await expectNothingLeft(sandbox)
}
async function expectStopsWith(sandbox: Started, part: 'worker' | 'api' | 'chain') {
  process.kill(sandbox.info.pids[part], 'SIGKILL')
  expect(await sandbox.exitCode).toBe(1)
  expect(sandbox.output()).toContain(`${part} ended (SIGKILL)`)
  await expectNothingLeft(sandbox)
}
function refusesConnections({ hostname, port }: URL): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: hostname, port: Number(port) })
    socket.on('connect', () => {
      socket.destroy()
      resolve(false)
    })
    socket.on('error', () => resolve(true))
  })
}
const DEMO = fileURLToPath(new URL('../../../infra/sandbox/demo/main.ts', import.meta.url))
interface Report {
  pids: number[]
  connectionString: string
  rpcUrl: string
}
/** Starts supervisor.fixture.ts, which does not outlive the test, and waits for its report. */
async function startSupervisor(...args: string[]): Promise<{ supervisor: ChildProcess; report: Report }> {
  const fixture = new URL('../../support/processes/supervisor.fixture.ts', import.meta.url).pathname
  const supervisor = spawn(process.execPath, [fixture, ...args], { stdio: ['ignore', 'pipe', 'inherit'] })
  onTestFinished(() => void supervisor.kill('SIGKILL'))
  const report = await new Promise<Report>((resolve, reject) => {
    createInterface({ input: supervisor.stdout }).once('line', (line) => resolve(JSON.parse(line) as Report))
    supervisor.once('exit', () => reject(new Error('The supervisor exited early.')))
  })
  return { supervisor, report }
}
async function survivorsOf(pids: number[]): Promise<number[]> {
  const lines = await Promise.all(pids.map(readCommandLine))
  return pids.filter((_pid, index) => lines[index] !== undefined)
}
function run(command: string, ...args: string[]): Promise<ProcessExit> {
  return spawnGuarded({ command, args }).exited
}
async function query(connectionString: string, sql: string): Promise<QueryResult['rows']> {
  const client = new Client({ connectionString })
  await client.connect()
  try {
    return (await client.query(sql)).rows
  } finally {
    await client.end()
  }
}

describe('the sandbox from start to end', () => {
  let directory: string
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'farebox-lifecycle-'))
  })

  afterAll(async () => {
    for (const { supervisor } of started) supervisor.kill('SIGTERM')
    await Promise.all(started.map(({ exitCode }) => exitCode))
    await rm(directory, { recursive: true, force: true })
  })

  /** Runs the sandbox in the same folder each time. Its own timeouts end a start that hangs. */
  function start(name = 'sandbox', ...args: string[]): Promise<Started> {
    return startProgram(process.execPath, [START, '--simulated', ...args], join(directory, `${name}.json`))
  }
  /** Runs the script of `npm start` as a user does, but in the test's folder; the supervisor is npm. */
  async function startWithNpm(): Promise<Started> {
    const { scripts } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as { scripts: { start: string } }
    const script = scripts.start.replace('infra/sandbox/main.ts', START)
    await writeFile(join(directory, 'package.json'), JSON.stringify({ scripts: { start: script } }))
    return startProgram('npm', ['start'], join(directory, 'npm.json'))
  }
  async function startProgram(program: string, args: readonly string[], sandboxFile: string): Promise<Started> {
    const supervisor = spawn(program, args, {
      cwd: directory,
      env: { PATH: process.env['PATH'], HOME: process.env['HOME'], SANDBOX_FILE: sandboxFile },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const ready = Promise.withResolvers<'ready'>()
    let output = ''
    for (const stream of [supervisor.stdout, supervisor.stderr])
      stream.on('data', (chunk) => {
        output += String(chunk)
        if (output.includes('Ready in')) ready.resolve('ready')
      })
    const exitCode = new Promise<number | null>((resolve) => supervisor.on('close', resolve))
    started.push({ supervisor, exitCode })
    if ((await Promise.race([ready.promise, exitCode])) !== 'ready') throw new Error(output)
    const info = JSON.parse(await readFile(sandboxFile, 'utf8')) as SandboxInfo
    return { supervisor, exitCode, output: () => output, info, sandboxFile }
  }
  /** Passed from test to test: starting is by far the most expensive step, and each tested ending needs a running sandbox. */
  let running: Started
  test('keeps a paid result and its receipt across Ctrl-C (exit code 0) and a killed worker until --fresh', async () => {
    const idempotencyKey = randomUUID()
    const audio = (await readFile(SAMPLE)).toString('base64')
    const call = ({ info }: Started, headers: Record<string, string> = {}) =>
      fetch(`${info.baseUrl}/v1/audio/transcriptions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-idempotency-key': idempotencyKey, ...headers },
        body: JSON.stringify({ model: 'speechvendor/scribe-v2', audio_base64: audio }),
      })

    const before = await start()
    const client = createPayingClient({ ...before.info, privateKey: before.info.payer.privateKey })
    const headers = await client.sign(await call(before))
    const paid = await call(before, headers)
    expect(paid.status).toBe(200)
    const result = await paid.text()
    await expectStops(before, 'SIGINT')

    const after = await start()
    expect(after.info.payer).toEqual(before.info.payer)
    // Payments signed before the stop, and media URLs of kept results, name it.
    expect(after.info.baseUrl).toBe(before.info.baseUrl)
    expect(after.info.settlementContract).toBe(before.info.settlementContract)
    const replay = await call(after, headers)
    expect(replay.status).toBe(200)
    expect(replay.headers.get('x-receipt-token')).toBe(paid.headers.get('x-receipt-token'))
    expect(await replay.text()).toBe(result)
    await expectStopsWith(after, 'worker')

    running = await start('sandbox', '--fresh')
    expect(running.info.payer).not.toEqual(before.info.payer)
    expect((await call(running, headers)).status).toBe(402)
  })

  test('prints the line that transcribes a folder with the client', async () => {
    const [, line = 'false'] = /^(FAREBOX_URL=.* transcribe .*)$/m.exec(running.output()) ?? []
    const recordings = join(directory, '.farebox/client/recordings')
    const { stderr } = await promisify(exec)(`${line} --format txt --yes`, { cwd: directory })
    expect(stderr).toContain('3 recordings transcribed')
    expect(await readFile(join(recordings, 'last-tram.txt'), 'utf8')).toContain('I am the farebox')
    expect(await readdir(join(directory, '.farebox/client/home'))).toContain('journal')
  })

  test('runs and stops (SIGTERM, exit code 0) a second sandbox without affecting the first', async () => {
    const second = await start('second')
    expect(second.output()).toContain('Another sandbox runs in')
    expect(second.info.baseUrl).not.toBe(running.info.baseUrl)
    expect((await fetch(`${second.info.baseUrl}/healthz`)).status).toBe(200)
    // From `timeout` and from npm, which sends it on; so does Ctrl-C arrive.
    second.supervisor.kill('SIGTERM')
    await delay(50)
    await expectStops(second, 'SIGTERM')
    expect((await fetch(`${running.info.baseUrl}/healthz`)).status).toBe(200)
  })

  test('stops everything with exit code 1 when a part is killed', async () => {
    await expectStopsWith(running, 'api')
    running = await start()
    await expectStopsWith(running, 'chain')
  })

  test('refuses a ledger of a version before 1.0 with exit code 1, and says how to begin anew', async () => {
    const earlier = await mkdtemp(join(tmpdir(), 'farebox-earlier-'))
    onTestFinished(() => rm(earlier, { recursive: true, force: true }))
    const postgres = await startPostgres({ dataDirectory: join(earlier, '.farebox/postgres') })
    const ledger = new Client({ connectionString: postgres.connectionString })
    await ledger.connect()
    await ledger.query('CREATE TABLE schema_migrations (name text PRIMARY KEY, digest text NOT NULL)')
    await ledger.end()
    await postgres.stop()
    const refused = await promisify(execFile)(process.execPath, [START], { cwd: earlier }).catch(
      (error: Error & { code: number; stderr: string }) => error,
    )
    expect(refused).toMatchObject({ code: 1 })
    expect(refused.stderr).toContain('the schema is of a version before 1.0')
    expect(refused.stderr).toContain('`npm start -- --fresh` begins anew')
  })

  test('settles a payment by itself with --no-contract, on the state of a sandbox that has a contract', async () => {
    const alone = await start('sandbox', '--no-contract')
    const idempotencyKey = randomUUID()
    const { info } = alone
    expect(info).not.toHaveProperty('settlementContract')
    const client = createPayingClient({ ...info, privateKey: info.payer.privateKey })
    const call = (headers: Record<string, string> = {}) =>
      fetch(`${info.baseUrl}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-idempotency-key': idempotencyKey, ...headers },
        body: JSON.stringify({ model: 'textmodel-3.5-flash', messages: [{ role: 'user', content: 'Hello' }] }),
      })
    const challenge = await call()
    const required = Buffer.from(challenge.headers.get('payment-required') ?? '', 'base64').toString()
    const [address = ''] = info.settlementAddresses
    expect(required.toLowerCase()).toContain(address.toLowerCase())
    expect((await call(await client.sign(challenge))).status).toBe(200)
    await expectStops(alone, 'SIGTERM')
  })

  test('leaves no process and no open port behind when the supervisor is killed', async () => {
    const sandbox = await start()
    sandbox.supervisor.kill('SIGKILL')
    await expectNothingRuns(sandbox)
  })

  test('stops when npm, which started it, is killed', async () => {
    const sandbox = await startWithNpm()
    sandbox.supervisor.kill('SIGKILL')
    await expectNothingLeft(sandbox)
  })
})

/** Runs it as `npm run demo` does, with the programs of these folders, and returns what it prints. */
async function runDemo(path: string | undefined, ...args: string[]) {
  const lines: string[] = []
  const demo = spawnGuarded({
    command: process.execPath,
    args: [DEMO, ...args],
    env: { PATH: path, HOME: process.env['HOME'] },
    log: (line) => lines.push(line),
  })
  const { code } = await demo.exited
  await expect.poll(() => lines.join('\n')).toContain(code === 0 ? 'Done.' : 'failed')
  return { code, output: lines.join('\n') }
}

describe('the demo', () => {
  it('npm run demo says on a bare machine that its speech is real and its hearing simulated', async () => {
    const bare = await mkdtemp(join(tmpdir(), 'farebox-bare-'))
    onTestFinished(() => rm(bare, { recursive: true, force: true }))
    // All programs of the system, except those that hear and convert.
    for (const folder of ['/usr/sbin', '/usr/bin'])
      for (const program of await readdir(folder).catch(() => []))
        if (!/^(?:pocketsphinx|ff)/.test(program))
          await symlink(join(folder, program), join(bare, program)).catch(() => undefined)
    const { code, output } = await runDemo(bare)
    expect(output).toMatch(/voice +real: flite[^]*hearing +simulated[^]*text +simulated[^]*images +simulated/)
    expect(output).not.toContain('Have what was spoken transcribed')
    expect(output).toContain('3 recordings transcribed')
    expect(code).toBe(0)
  })

  it.skipIf(!havePrograms('pocketsphinx_continuous'))(
    'npm run demo hears its own speech with pocketsphinx, and real words in a folder',
    async () => {
      const { code, output } = await runDemo(process.env['PATH'])
      expect(output).toMatch(/hearing +real: pocketsphinx/)
      const [, said = '', heard = ''] = /^ +said +(.*)\n +heard +(.*)$/m.exec(output) ?? []
      expect(wordErrorRate(said, heard)).toBeLessThan(0.5)
      expect(output).toMatch(/2 recordings transcribed[^]*subtitles[^]*-->/)
      const [, subtitles = ''] = /subtitles([^]*)Done/.exec(output) ?? []
      // Of the first sentences of the sample.
      expect(subtitles).toMatch(/names|password|plans|evening|step/)
      expect(code).toBe(0)
    },
  )

  it.skipIf(!haveRedis() || !haveS3())(
    'npm run demo uses the queue of QUEUE_URL and the object store of S3_ENDPOINT',
    async () => {
      const [redis, s3] = await Promise.all([startTestRedis(), startTestS3()])
      onTestFinished(async () => {
        await redis.stop()
        await s3.stop()
      })
      const settings = s3.settings({ S3_BUCKET: 'farebox-demo' })
      const lines: string[] = []
      const demo = spawnGuarded({
        command: process.execPath,
        args: [DEMO, '--simulated'],
        env: {
          PATH: process.env['PATH'],
          HOME: process.env['HOME'],
          QUEUE_URL: redis.url,
          ...s3.environment({ S3_BUCKET: 'farebox-demo' }),
        },
        log: (line) => lines.push(line),
      })
      const exit = await demo.exited
      // The last lines may arrive after the exit.
      await expect
        .poll(() => ({ ...exit, output: lines.join('\n') }))
        .toMatchObject({
          code: 0,
          output: expect.stringMatching(/receipt[^]*3 recordings transcribed[^]*I am the farebox/),
        })
      // The jobs went through this Redis, and the generated media are in this store's bucket.
      expect(await redis.client.keys('{farebox-*}:transcriptions:id')).toHaveLength(1)
      const objects = await objectsInBucket(settings)()
      for (const kind of ['media/images', 'media/speech'])
        expect(objects.filter(({ key }) => key.startsWith(`${kind}/`))).not.toEqual([])
    },
  )
})

describe('a guarded process', () => {
  it('a guarded process has its own pid, and its output reaches the log', async () => {
    const lines: string[] = []
    const args = ['-c', 'echo $$; echo problem >&2']
    const child = spawnGuarded({ command: 'sh', args, log: (line) => lines.push(line) })
    expect(await child.exited).toEqual({ code: 0, signal: null })
    expect(lines.sort()).toEqual([String(child.pid), 'problem'])
  })

  it('a guarded process reports its exit code, its signal or a missing command', async () => {
    expect(await run('sh', '-c', 'exit 3')).toEqual({ code: 3, signal: null })
    expect(await run('sh', '-c', 'kill -SEGV $$')).toEqual({ code: null, signal: 'SIGSEGV' })
    expect(await run('/nowhere/at/all')).toEqual({ code: 127, signal: null })
  })

  it('a guarded process stops with the requested signal, and with SIGKILL after the grace time', async () => {
    const obedient = spawnGuarded({ command: 'sleep', args: ['600'] })
    await obedient.stop({ signal: 'SIGINT', graceMs: PATIENCE_MS })
    await obedient.stop()
    expect(await obedient.exited).toEqual({ code: null, signal: 'SIGINT' })
    const ready = Promise.withResolvers<string>()
    const stubborn = spawnGuarded({
      command: 'sh',
      args: ['-c', 'trap "" TERM; echo ready; while :; do sleep 0.05; done'],
      log: ready.resolve,
    })
    await ready.promise
    await stubborn.stop({ graceMs: 200 })
    expect(await stubborn.exited).toEqual({ code: null, signal: 'SIGKILL' })
  })

  it('processes that a guarded process leaves running are killed', async () => {
    const grandchild = Promise.withResolvers<number>()
    const args = ['-c', 'sleep 600 & echo $!']
    const child = spawnGuarded({ command: 'sh', args, log: (line) => grandchild.resolve(Number(line)) })
    expect(await child.exited).toEqual({ code: 0, signal: null })
    const pid = await grandchild.promise
    await expect.poll(() => survivorsOf([pid])).toEqual([])
  })

  it('a guarded process and its children die with their supervisor, even if they ignore SIGTERM', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'farebox-orphan-'))
    const { supervisor, report } = await startSupervisor('programs', directory)
    // A process that its shell has just created has no command line until it has become its program.
    await expect.poll(() => survivorsOf(report.pids)).toEqual(report.pids)
    supervisor.kill('SIGKILL')
    await expect.poll(() => survivorsOf(report.pids)).toEqual([])
    // The stubborn process was killed before it could write its file, three seconds after SIGTERM.
    expect(await readdir(directory)).toEqual([])
    await rm(directory, { recursive: true })
  })
})

describe('a sandbox with a killed supervisor', () => {
  it('a killed sandbox leaves no PostgreSQL and no anvil, and loses neither committed rows nor blocks', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'farebox-orphan-'))
    const { supervisor, report } = await startSupervisor('stack', directory)
    const client = new Client({ connectionString: report.connectionString })
    client.on('error', () => undefined)
    await client.connect()
    await client.query('CREATE TABLE kept AS SELECT 42 AS answer')
    const sessions = await client.query<{ pid: number }>('SELECT pid FROM pg_stat_activity')
    await callRpc(report.rpcUrl, 'evm_mine', [])
    supervisor.kill('SIGKILL')
    await expect.poll(() => survivorsOf([...report.pids, ...sessions.rows.map(({ pid }) => pid)])).toEqual([])

    const postgres = await startPostgres({ dataDirectory: join(directory, 'postgres') })
    const again = new Client({ connectionString: postgres.connectionString })
    await again.connect()
    expect((await again.query('SELECT answer FROM kept')).rows).toEqual([{ answer: 42 }])
    await again.end()
    const devnet = await startTestDevnet({ stateFile: join(directory, 'chain.json') })
    expect(devnet.resumed).toBe(true)
    await Promise.all([postgres.stop(), devnet.stop()])
    await rm(directory, { recursive: true, force: true })
  })
})

describe('the embedded PostgreSQL', () => {
  let directory: string
  /** One cluster for all tests in turn: creating one takes longer than all that they do with it. */
  let dataDirectory: string
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'farebox-postgres-'))
    dataDirectory = join(directory, 'shared')
  })
  afterAll(() => rm(directory, { recursive: true, force: true }))

  it.skipIf(getuid?.() !== 0)('says which folder its user cannot enter, when it is started as root', async () => {
    const locked = join(directory, 'locked')
    await mkdir(locked, { mode: 0o700 })
    const program = join(locked, 'initdb')
    await writeFile(program, '', { mode: 0o755 })
    await expect(choosePostgresUser([program], directory)).rejects.toThrow(
      `cannot enter ${locked}: allow it (chmod o+x ${locked}), move the checkout, or run as an ordinary user`,
    )
  })

  it('the embedded PostgreSQL keeps its data across a stop and across a SIGKILL of the postmaster', async () => {
    const first = await startPostgres({ dataDirectory })
    await query(first.connectionString, 'CREATE TABLE kept (answer int)')
    await first.stop()
    expect(await first.exited).toEqual({ code: 0, signal: null })

    const second = await startPostgres({ dataDirectory })
    await query(second.connectionString, 'INSERT INTO kept VALUES (42)')
    const [left] = await query(
      second.connectionString,
      "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'",
    )
    process.kill(left.pid, 'SIGSTOP')
    process.kill(second.pid, 'SIGKILL')
    expect(await second.exited).toEqual({ code: null, signal: 'SIGKILL' })

    // No other server may start while one of its processes is left.
    const lines: string[] = []
    const starting = startPostgres({ dataDirectory, log: (line) => lines.push(line) })
    await until(() => lines.some((line) => line.includes('pre-existing shared memory block')))
    process.kill(left.pid, 'SIGKILL')
    const third = await starting
    expect(await query(third.connectionString, 'SELECT answer FROM kept')).toEqual([{ answer: 42 }])
    await third.stop()
  })

  it('the embedded PostgreSQL starts even if the crashed server’s pid now belongs to another program', async () => {
    const first = await startPostgres({ dataDirectory })
    const lockFile = join(dataDirectory, 'postmaster.pid')
    const lock = await readFile(lockFile, 'utf8')
    await first.stop()
    await writeFile(lockFile, lock.replace(/^\d+/, String(process.pid)))
    const second = await startPostgres({ dataDirectory })
    await second.stop()
  })

  it('the embedded PostgreSQL is durable, on loopback only, with a password and without a Unix socket', async () => {
    const { connectionString, stop } = await startPostgres({ dataDirectory })
    const names = ['fsync', 'synchronous_commit', 'full_page_writes', 'listen_addresses', 'unix_socket_directories']
    const settings = await query(
      connectionString,
      `SELECT ${names.map((name) => `current_setting('${name}') ${name}`).join(', ')}`,
    )
    expect(settings).toEqual([
      {
        fsync: 'on',
        synchronous_commit: 'on',
        full_page_writes: 'on',
        listen_addresses: '127.0.0.1',
        unix_socket_directories: '',
      },
    ])
    const wrong = connectionString.replace(/:[0-9a-f]+@/, ':wrong@')
    await expect(query(wrong, 'SELECT 1')).rejects.toThrow('password authentication failed')
    await stop()
  })

  it('two embedded PostgreSQL servers run concurrently, but not on the same directory', async () => {
    const left = startPostgres({ dataDirectory })
    const right = startPostgres({ dataDirectory: join(directory, 'right') })
    const servers = await Promise.all([left, right])
    expect(new Set(servers.map(({ port }) => port)).size).toBe(2)
    await expect(startPostgres({ dataDirectory })).rejects.toThrow('is in use by process')
    await Promise.all(servers.map(({ stop }) => stop()))
  })

  it('the embedded PostgreSQL never deletes a directory that contains something else', async () => {
    const foreign = join(directory, 'foreign')
    await mkdir(foreign)
    await writeFile(join(foreign, 'thesis.txt'), 'years of work')
    await expect(startPostgres({ dataDirectory: foreign })).rejects.toThrow('not a cluster of this sandbox')
    expect(await readFile(join(foreign, 'thesis.txt'), 'utf8')).toBe('years of work')
  })

  it('the embedded PostgreSQL creates its cluster again after an interrupted first start', async () => {
    const interrupted = join(directory, 'interrupted')
    await mkdir(`${interrupted}.initializing`)
    await writeFile(join(`${interrupted}.initializing`, 'PG_VERSION'), '18')
    const postgres = await startPostgres({ dataDirectory: interrupted })
    expect(await query(postgres.connectionString, 'SELECT current_database() AS name')).toEqual([{ name: 'farebox' }])
    await postgres.stop()
  })
})
