import { type ChildProcess, exec, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createPayingClient } from '../../../infra/sandbox/paying-client.ts'
import type { SandboxInfo } from '../../../infra/sandbox/sandbox.ts'
import { isRunning } from '../../support/processes/is-running.ts'
import { until } from '../../support/until.ts'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
const START = join(ROOT, 'infra/sandbox/main.ts')
const SAMPLE = fileURLToPath(new URL('../../../infra/sandbox/samples/two-at-the-stop.mp3', import.meta.url))

let directory: string
/** Registered as soon as they are spawned: one that never becomes ready must be stopped as well. */
const started: Pick<Started, 'supervisor' | 'exitCode'>[] = []
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'farebox-lifecycle-'))
})
afterAll(async () => {
  for (const { supervisor } of started) supervisor.kill('SIGTERM')
  await Promise.all(started.map(({ exitCode }) => exitCode))
  await rm(directory, { recursive: true, force: true })
})

interface Started {
  supervisor: ChildProcess
  exitCode: Promise<number | null>
  output: () => string
  info: SandboxInfo
  sandboxFile: string
}

/** Runs the sandbox in the same folder each time. Its own timeouts end a start that hangs. */
function start(name = 'sandbox', ...args: string[]): Promise<Started> {
  return startProgram(process.execPath, [START, ...args], join(directory, `${name}.json`))
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
  await expectStops(second, 'SIGTERM')
  expect((await fetch(`${running.info.baseUrl}/healthz`)).status).toBe(200)
})

test('stops everything with exit code 1 when a part is killed', async () => {
  await expectStopsWith(running, 'api')
  running = await start()
  await expectStopsWith(running, 'chain')
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
