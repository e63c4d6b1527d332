import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { Client } from 'pg'
import { describe, expect, it, onTestFinished } from 'vitest'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { startPostgres } from '../../../infra/sandbox/postgres/embedded-postgres.ts'
import { type ProcessExit, spawnGuarded } from '../../../infra/sandbox/processes/guarded-process.ts'
import { readCommandLine } from '../../../infra/sandbox/processes/previous-process.ts'
import { startTestDevnet } from '../../support/chain/devnet.ts'
import { PATIENCE_MS } from '../../support/patience.ts'

interface Report {
  pids: number[]
  connectionString: string
  rpcUrl: string
}

/** Starts supervisor.fixture.ts, which does not outlive the test, and waits for its report. */
async function startSupervisor(...args: string[]): Promise<{ supervisor: ChildProcess; report: Report }> {
  const fixture = new URL('supervisor.fixture.ts', import.meta.url).pathname
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
