import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest'
import { recordingOf } from '../media/recording.ts'
import { COMPILE_CACHE } from '../processes/run-program.ts'
import { type SharedSandbox, useSharedSandbox } from '../processes/test-sandbox.ts'

const MAIN = fileURLToPath(new URL('../../../client/command/main.ts', import.meta.url))

/** The program while it runs. */
export interface RunningCommand {
  readonly child: ChildProcess
  /** What it wrote so far. */
  readonly written: { out: string; err: string }
  readonly done: Promise<CommandEnd>
}

export interface CommandEnd {
  readonly code: number | null
  readonly out: string
  readonly err: string
  /** Returns the lines of stdout, as JSON. */
  readonly events: () => Record<string, unknown>[]
}

export interface StartOptions {
  readonly input?: string | Uint8Array
  readonly environment?: Readonly<Record<string, string>>
  /** Runs it on a pseudo-terminal: what it writes to stdout and stderr is in `out`. */
  readonly onTerminal?: boolean
}

/** The bench of the running test, on the sandbox that files share. */
export interface SharedBench extends CommandBench {
  readonly sandbox: SharedSandbox
  /** Returns what the wallet paid on chain since the test began. */
  paid(): Promise<bigint>
}

/** Registers hooks that make a folder for each test of the calling file. */
export function useCommandBench(): SharedBench {
  let sandbox: SharedSandbox
  let bench: CommandBench
  let balance: bigint
  const read = () => sandbox.chain.usdcBalance(sandbox.payer.address)
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
  })
  afterAll(async () => {
    await sandbox.stop()
  })
  beforeEach(async () => {
    bench = await makeCommandBench(sandbox)
    balance = await read()
  })
  afterEach(async () => {
    await sandbox.setFaults([])
    await bench.remove()
  })
  return {
    get sandbox() {
      return sandbox
    },
    get folder() {
      return bench.folder
    },
    record: (...names) => bench.record(...names),
    start: (args, options) => bench.start(args, options),
    run: (args, options) => bench.run(args, options),
    remove: () => bench.remove(),
    paid: async () => balance - (await read()),
  }
}

/** A folder in which the program runs as a process of its own, with the wallet of a sandbox. */
export interface CommandBench {
  readonly folder: string
  /** Writes recordings of one second each with contents of their own. */
  record(...names: readonly string[]): Promise<void>
  start(args: readonly string[], options?: StartOptions): RunningCommand
  run(args: readonly string[], options?: StartOptions): Promise<CommandEnd>
  remove(): Promise<void>
}

export async function makeCommandBench(sandbox: SharedSandbox): Promise<CommandBench> {
  const root = await mkdtemp(join(tmpdir(), 'farebox-command-'))
  const folder = join(root, 'audio')
  await mkdir(folder)
  const { baseUrl, rpcUrl, payer } = sandbox.info
  const settings = {
    FAREBOX_URL: baseUrl,
    FAREBOX_RPC_URL: rpcUrl,
    FAREBOX_PRIVATE_KEY: payer.privateKey,
    FAREBOX_HOME: join(root, 'home'),
    PATH: process.env['PATH'] ?? '',
    NODE_COMPILE_CACHE: COMPILE_CACHE,
    LANG: 'C.UTF-8',
  }
  const start = (args: readonly string[], options: StartOptions = {}) =>
    startCommand(folder, args, { ...options, environment: { ...settings, ...options.environment } })
  return {
    folder,
    record: async (...names) => {
      for (const name of names) {
        await mkdir(dirname(join(folder, name)), { recursive: true })
        await writeFile(join(folder, name), recordingOf(`This is ${name} of ${root}.`))
      }
    },
    start,
    run: (args, options) => start(args, options).done,
    remove: () => rm(root, { recursive: true, force: true }),
  }
}

function startCommand(folder: string, args: readonly string[], options: StartOptions): RunningCommand {
  const { input, environment, onTerminal = false } = options
  const command = [process.execPath, MAIN, ...args]
  const [program = '', ...programArguments] = onTerminal
    ? ['script', '--quiet', '--flush', '--return', '--command', command.map(quote).join(' '), '/dev/null']
    : command
  const child = spawn(program, programArguments, { cwd: folder, env: { ...environment }, stdio: 'pipe' })
  const written = { out: '', err: '' }
  child.stdout.setEncoding('utf8').on('data', (text: string) => (written.out += text))
  child.stderr.setEncoding('utf8').on('data', (text: string) => (written.err += text))
  // The program may end before it has read everything.
  child.stdin.on('error', () => undefined)
  if (!onTerminal || input !== undefined) child.stdin.end(input ?? '')
  const done = once(child, 'close').then(([code]): CommandEnd => ({
    code: code as number | null,
    ...written,
    events: () => linesOf(written.out).map((line) => JSON.parse(line) as Record<string, unknown>),
  }))
  return { child, written, done }
}

function linesOf(text: string): string[] {
  return text.split('\n').filter((line) => line !== '')
}

function quote(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`
}
