import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createPayingClient } from '../../infra/sandbox/paying-client.ts'
import type { SandboxInfo } from '../../infra/sandbox/sandbox.ts'
import { isRunning } from '../support/is-running.ts'

const START = fileURLToPath(new URL('../../infra/sandbox/main.ts', import.meta.url))
const SAMPLE = fileURLToPath(new URL('../../infra/sandbox/samples/two-at-the-stop.mp3', import.meta.url))

let directory: string
/** From the moment on that they are started: one that never gets ready must be stopped as well. */
const started: Pick<Started, 'supervisor' | 'exitCode'>[] = []
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'farebox-lifecycle-'))
})
afterEach(async () => {
  await Promise.all(started.splice(0).map(stop))
  await rm(directory, { recursive: true, force: true })
})

interface Started {
  supervisor: ChildProcess
  exitCode: Promise<number | null>
  output: () => string
  info: SandboxInfo
  sandboxFile: string
}

/** `npm start` as a user runs it, in a folder of its own. */
async function start(name = 'sandbox', ...args: string[]): Promise<Started> {
  const sandboxFile = join(directory, `${name}.json`)
  const supervisor = spawn(process.execPath, [START, ...args], {
    cwd: directory,
    env: { PATH: process.env['PATH'], HOME: process.env['HOME'], SANDBOX_FILE: sandboxFile },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  for (const stream of [supervisor.stdout, supervisor.stderr]) stream.on('data', (chunk) => (output += String(chunk)))
  const exitCode = new Promise<number | null>((resolve) => supervisor.on('exit', resolve))
  started.push({ supervisor, exitCode })
  await vi.waitUntil(() => output.includes('Ready in') || supervisor.exitCode !== null, { timeout: 30_000 })
  if (supervisor.exitCode !== null) throw new Error(output)
  const info = JSON.parse(await readFile(sandboxFile, 'utf8')) as SandboxInfo
  return { supervisor, exitCode, output: () => output, info, sandboxFile }
}

async function expectNothingRuns({ info }: Started) {
  await vi.waitUntil(() => Object.values(info.pids).every((pid) => !isRunning(pid)), { timeout: 10_000 })
  for (const url of [info.baseUrl, info.rpcUrl, info.upstreamUrl, info.databaseUrl])
    await vi.waitUntil(() => refusesConnections(new URL(url)), { timeout: 10_000 })
}

async function expectNothingLeft(sandbox: Started) {
  await expectNothingRuns(sandbox)
  await expect(readFile(sandbox.sandboxFile)).rejects.toThrow('ENOENT')
}

async function stop({ supervisor, exitCode }: Pick<Started, 'supervisor' | 'exitCode'>) {
  supervisor.kill('SIGTERM')
  await exitCode
}

test('SIGTERM and Ctrl-C stop everything with exit code 0', async () => {
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    const sandbox = await start()
    sandbox.supervisor.kill(signal)
    expect(await sandbox.exitCode).toBe(0)
    await expectNothingLeft(sandbox)
  }
})

test('a part that is killed takes everything else down with it, and the exit code says so', async () => {
  for (const part of ['worker', 'api', 'chain'] as const) {
    const sandbox = await start()
    process.kill(sandbox.info.pids[part], 'SIGKILL')
    expect(await sandbox.exitCode).toBe(1)
    expect(sandbox.output()).toContain(`${part} ended (SIGKILL)`)
    await expectNothingLeft(sandbox)
  }
})

test('a killed supervisor leaves no process and no port behind', async () => {
  const sandbox = await start()
  sandbox.supervisor.kill('SIGKILL')
  await expectNothingRuns(sandbox)
})

test('a second sandbox beside the first works and ends without touching it', async () => {
  const first = await start('first')
  const second = await start('second')
  expect(second.output()).toContain('Another sandbox runs in')
  expect(second.info.baseUrl).not.toBe(first.info.baseUrl)
  second.supervisor.kill('SIGTERM')
  expect(await second.exitCode).toBe(0)
  await expectNothingLeft(second)
  expect((await fetch(`${first.info.baseUrl}/healthz`)).status).toBe(200)
})

test('a paid result and its receipt survive a restart, and --fresh forgets them', async () => {
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
  await stop(before)

  const after = await start()
  expect(after.info.payer).toEqual(before.info.payer)
  const replay = await call(after, headers)
  expect(replay.status).toBe(200)
  expect(replay.headers.get('x-receipt-token')).toBe(paid.headers.get('x-receipt-token'))
  expect(await replay.text()).toBe(await paid.text())
  await stop(after)

  const fresh = await start('sandbox', '--fresh')
  expect(fresh.info.payer).not.toEqual(before.info.payer)
  expect((await call(fresh, headers)).status).toBe(402)
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
