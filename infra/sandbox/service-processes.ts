import { createWriteStream } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type GuardedProcess, spawnGuarded } from './guarded-process.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))

/** Generous for a slow machine that runs other things as well; a process that dies meanwhile is reported at once. */
const START_TIMEOUT_MS = 120_000

/** One of our own Node processes: API, worker or simulated upstream. */
export interface ServiceProcess extends GuardedProcess {
  /** The line that told it was ready. */
  readonly readyLine: string
}

/** Parsing and compiling all code anew is a quarter of a start; where this cannot be written, Node goes on without. */
const COMPILE_CACHE = join(ROOT, 'node_modules/.cache/farebox-compiled')

/**
 * Starts `entry` (a path below the repository) and waits for a line of its output that `isReady` accepts. All output goes
 * to `<logs>/<name>.log`. Throws with the last lines when the process ends before or takes too long.
 */
export async function startService(options: {
  name: string
  entry: string
  environment: Record<string, string>
  logsDirectory: string
  isReady: (line: string) => boolean
}): Promise<ServiceProcess> {
  await mkdir(options.logsDirectory, { recursive: true })
  const logPath = join(options.logsDirectory, `${options.name}.log`)
  const logFile = createWriteStream(logPath, { flags: 'a', mode: 0o600 })
  const ready = Promise.withResolvers<string>()
  const lastLines: string[] = []
  const started = spawnGuarded({
    command: process.execPath,
    args: [join(ROOT, options.entry)],
    cwd: ROOT,
    env: { ...inheritedEnvironment(), NODE_COMPILE_CACHE: COMPILE_CACHE, ...options.environment },
    // Orphans get the time to hand their work back.
    orphanGraceMs: 5000,
    log: (line) => {
      logFile.write(`${line}\n`)
      lastLines.push(line)
      if (lastLines.length > 20) lastLines.shift()
      if (options.isReady(line)) ready.resolve(line)
    },
  })
  void started.exited.then(() => logFile.end())
  const failed = started.exited.then(({ code, signal }) => {
    throw new Error(`${options.name} ended (${signal ?? `code ${code}`}) before it was ready:\n${lastLines.join('\n')}`)
  })
  const timeout = Promise.withResolvers<never>()
  const timer = setTimeout(
    () => timeout.reject(new Error(`${options.name} was not ready in time; see ${logPath}`)),
    START_TIMEOUT_MS,
  )
  try {
    const readyLine = await Promise.race([ready.promise, failed, timeout.promise])
    // From now on its end is the supervisor's matter.
    failed.catch(() => undefined)
    return { ...started, readyLine }
  } catch (error) {
    await started.stop()
    throw error
  } finally {
    clearTimeout(timer)
  }
}

/** What a process needs of the machine; nothing of the caller's own settings leaks into the sandbox. */
function inheritedEnvironment(): Record<string, string> {
  const names = ['PATH', 'HOME', 'TMPDIR', 'LANG', 'TZ', 'FFMPEG_PATH']
  return Object.fromEntries(
    names.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])),
  )
}
