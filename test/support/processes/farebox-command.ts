import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { COMPILE_CACHE } from './run-program.ts'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
/** The sources of the command, so that no stale build is tested. */
const SOURCES = join(ROOT, 'client/command/main.ts')
/** What users run; needs `npm run build --workspace client`. */
export const BUILT_COMMAND = join(ROOT, 'client/bin/farebox.js')
const KEPT_ERRORS = 4000

export interface CommandSettings {
  readonly baseUrl: string
  readonly privateKey: string
  /** Where the journal is. */
  readonly home: string
  readonly rpcUrl?: string
  /** A file with the certificate of the service's own authority. */
  readonly authority?: string
  /** The file to run, and the program that runs it; the sources with this process's Node by default. */
  readonly entry?: string
  readonly node?: string
  /** A module to load before the command. */
  readonly preload?: string
  /** Compiles everything at each start, as for users. */
  readonly isUncached?: boolean
}

/** An event of `--json`; its other members depend on the event. */
export type CommandEvent = { readonly event: string } & Readonly<Record<string, unknown>>

export interface CommandEnd {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly elapsedMs: number
}

export interface RunningCommand {
  readonly pid: number
  /** The events so far, with `--json`. */
  readonly events: readonly CommandEvent[]
  readonly ended: Promise<CommandEnd>
  /** The end of its messages. */
  errors(): string
  kill(): void
}

/** Starts `farebox` as a process. Of this process's environment it gets only PATH. */
export function startFareboxCommand(args: readonly string[], settings: CommandSettings): RunningCommand {
  const startedAt = performance.now()
  const { entry = SOURCES, node = process.execPath, preload } = settings
  const child = spawn(node, [...(preload === undefined ? [] : ['--import', preload]), entry, ...args], {
    env: environmentOf(settings),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const events: CommandEvent[] = []
  let errors = ''
  readLines(child.stdout, (line) => {
    if (line.startsWith('{')) events.push(JSON.parse(line) as CommandEvent)
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors = (errors + text).slice(-KEPT_ERRORS)
  })
  const ended = new Promise<CommandEnd>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code, signal) => resolve({ code, signal, elapsedMs: performance.now() - startedAt }))
  })
  return { pid: child.pid ?? 0, events, ended, errors: () => errors, kill: () => void child.kill('SIGKILL') }
}

function environmentOf(settings: CommandSettings): Record<string, string> {
  const { baseUrl, privateKey, home, rpcUrl, authority, isUncached = false } = settings
  return {
    PATH: process.env['PATH'] ?? '',
    ...(isUncached ? {} : { NODE_COMPILE_CACHE: COMPILE_CACHE }),
    FAREBOX_URL: baseUrl,
    FAREBOX_PRIVATE_KEY: privateKey,
    FAREBOX_HOME: home,
    ...(rpcUrl === undefined ? {} : { FAREBOX_RPC_URL: rpcUrl }),
    ...(authority === undefined ? {} : { NODE_EXTRA_CA_CERTS: authority }),
  }
}

/** Calls `onLine` for each complete line: what a killed process did not finish is left out. */
function readLines(stream: NodeJS.ReadableStream, onLine: (line: string) => void): void {
  let rest = ''
  stream.setEncoding('utf8')
  stream.on('data', (text: string) => {
    const lines = (rest + text).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) onLine(line)
  })
}
