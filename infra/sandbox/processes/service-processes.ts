import { createWriteStream } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { withDeadline } from '#shared/runtime/with-deadline.ts'
import { spawnGuarded } from './guarded-process.ts'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))

/** Generous for a slow, busy machine; a process that exits before is reported immediately. */
const START_TIMEOUT_MS = 120_000

/** A Node process of farebox: an API, a worker or the simulated vendors. */
export type ServiceProcess = Awaited<ReturnType<typeof startService>>

/**
 * What the image sets for the runtime itself, and the limit of the heap that V8 derives from a container's memory: measurements
 * of memory are those of a deployment. With gigabytes at hand V8 lets garbage grow to three times of what is in use.
 */
const IMAGE_ENVIRONMENT = {
  MALLOC_ARENA_MAX: '1',
  NODE_OPTIONS: '--max-semi-space-size=4 --max-old-space-size=1024',
}

/** Compiling all code takes a quarter of a start; Node runs without the cache where it cannot be written. */
const COMPILE_CACHE = 'node_modules/.cache/farebox-compiled'

/**
 * Starts `entry` (a path below the repository) and waits for a line of its output that `isReady` accepts. All output goes
 * to `<logs>/<name>.log`. Throws with the last lines when the process exits before it is ready or takes too long.
 */
export async function startService(options: {
  name: string
  entry: string
  environment: Record<string, string>
  logsDirectory: string
  isReady: (line: string) => boolean
  /** Another checkout to run from. */
  root?: string | undefined
  /** The words of a command that runs it. */
  launcher?: readonly string[] | undefined
}) {
  const { root = ROOT, launcher = [] } = options
  const [command, ...args] = [...launcher, process.execPath, join(root, options.entry)]
  await mkdir(options.logsDirectory, { recursive: true })
  const logPath = join(options.logsDirectory, `${options.name}.log`)
  const logFile = createWriteStream(logPath, { flags: 'a', mode: 0o600 })
  const ready = Promise.withResolvers<string>()
  const started = spawnGuarded({
    command,
    args,
    cwd: root,
    env: {
      ...inheritedEnvironment(),
      ...IMAGE_ENVIRONMENT,
      NODE_COMPILE_CACHE: join(root, COMPILE_CACHE),
      ...options.environment,
    },
    // Leaves orphaned processes time to release their jobs.
    orphanGraceMs: 5000,
    log: (line) => {
      logFile.write(`${line}\n`)
      if (options.isReady(line)) ready.resolve(line)
    },
  })
  void started.exited.then(() => logFile.end())
  const failed = started.exited.then(({ code, signal }) => {
    throw new Error(
      `${options.name} ended (${signal ?? `code ${code}`}) before it was ready:\n${started.lastLines.join('\n')}`,
    )
  })
  try {
    const readyLine = await withDeadline(START_TIMEOUT_MS, Promise.race([ready.promise, failed]), () => {
      throw new Error(`${options.name} was not ready in time; see ${logPath}`)
    })
    // From now on, the supervisor handles its exit.
    failed.catch(() => undefined)
    /** `readyLine` is the line that reported readiness. */
    return { ...started, readyLine }
  } catch (error) {
    await started.stop()
    throw error
  }
}

/** Returns the machine's variables that a process needs; other variables of the caller do not reach the sandbox. */
function inheritedEnvironment(): Record<string, string> {
  const names = ['PATH', 'HOME', 'TMPDIR', 'LANG', 'TZ', 'FFMPEG_PATH']
  return Object.fromEntries(
    names.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])),
  )
}
