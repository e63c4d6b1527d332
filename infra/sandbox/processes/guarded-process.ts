import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { withDeadline } from '#shared/runtime/with-deadline.ts'

/**
 * A POSIX shell script that starts a watcher and then becomes the guarded program.
 *
 * Linux's parent-death signal has no counterpart on macOS, but a pipe works everywhere: the kernel closes the
 * supervisor's end (our descriptor 0) however the supervisor dies, and the watcher's `read` ends. The watcher is a shell of
 * about 1 MB, where a Node process would take 45 MB. It is started from a subshell that exits immediately, so that it is not
 * the program's child; the program keeps the process id and default signal handling. The script is passed inline, because
 * another user may not be able to read this folder.
 *
 * The watcher's last command kills the process group: the program, its remaining children, and the watcher itself.
 */
const GUARD_SCRIPT = `
grace_tenths=$1; orphan_signal=$2; shift 2
exec 4<&0 </dev/null
( (
  trap : TERM HUP
  while read -r _; do :; done
  kill -s "$orphan_signal" $$
  while [ "$grace_tenths" -gt 0 ] && kill -s 0 $$; do sleep 0.1; grace_tenths=$((grace_tenths - 1)); done
  kill -s KILL -- -$$
) <&4 4<&- >/dev/null 2>&1 & )
exec 4<&-
exec "$@"
`

/** The last lines may still be in the output pipes when a program has ended; a detached grandchild may keep those open. */
const OUTPUT_GRACE_MS = 2_000
const KEPT_LINES = 20

/** The program to run, and its user. */
export interface GuardedProcessOptions {
  command: string
  args?: readonly string[]
  /** The whole environment of the program; the supervisor's by default. */
  env?: NodeJS.ProcessEnv
  cwd?: string
  /** Receives each line of standard output and standard error; both are discarded by default. */
  log?: ((line: string) => void) | undefined
  /** The signal for the program when the supervisor has died; default SIGTERM. */
  orphanSignal?: NodeJS.Signals
  /** The time between that signal and SIGKILL, in steps of 100 ms; default 1,000. */
  orphanGraceMs?: number
  /** User and group to run as; only root can set them. */
  uid?: number
  gid?: number
}

/** How a program ended: exactly one of the two is set. */
export interface ProcessExit {
  code: number | null
  signal: NodeJS.Signals | null
}

/** A running program that cannot outlive this process. */
export interface GuardedProcess {
  /** The program's own process id. */
  pid: number
  /** The last lines of its output, at most 20; none without a `log`. */
  lastLines: readonly string[]
  /** Resolves when the program has ended for any reason; never rejects. A missing command ends with code 127. */
  exited: Promise<ProcessExit>
  /**
   * Sends `signal` (default SIGTERM), then SIGKILL after `graceMs` (default 5,000). Resolves once the program has ended; safe
   * to repeat.
   */
  stop: (options?: { signal?: NodeJS.Signals; graceMs?: number }) => Promise<void>
}

/**
 * Starts a program that ends together with this process, whether by exit, crash or SIGKILL.
 *
 * An orphan receives `orphanSignal`, then SIGKILL after `orphanGraceMs`. However the program ends, the remaining processes of
 * its process group end with it. It runs in a separate session, so Ctrl-C in a terminal reaches only the supervisor, which
 * decides the order of shutdown. Linux and macOS.
 *
 * @throws Error when no process can be created, for example because `cwd` does not exist.
 */
export function spawnGuarded(options: GuardedProcessOptions): GuardedProcess {
  const { command, args = [], env, cwd, log, orphanSignal = 'SIGTERM', orphanGraceMs = 1_000, uid, gid } = options
  const output = log === undefined ? 'ignore' : 'pipe'
  // The shell's `kill -s` takes names without the prefix.
  const guard = ['-c', GUARD_SCRIPT, 'guard', String(Math.ceil(orphanGraceMs / 100)), orphanSignal.replace(/^SIG/, '')]
  const child = spawn('/bin/sh', [...guard, command, ...args], {
    detached: true,
    stdio: ['pipe', output, output],
    ...(env === undefined ? {} : { env }),
    ...(cwd === undefined ? {} : { cwd }),
    ...(uid === undefined ? {} : { uid }),
    ...(gid === undefined ? {} : { gid }),
  })
  // A failed start is reported below; nothing is ever written to standard input, so its errors are irrelevant.
  child.on('error', () => undefined)
  child.stdin?.on('error', () => undefined)
  const { pid } = child
  if (pid === undefined) throw new Error(`Cannot start ${command} in ${cwd ?? process.cwd()}`)
  const lastLines: string[] = []
  if (log !== undefined) {
    forwardLines(child, (line) => {
      lastLines.push(line)
      if (lastLines.length > KEPT_LINES) lastLines.shift()
      log(line)
    })
  }
  const exited = watchExit(child, pid)
  return {
    pid,
    lastLines,
    exited,
    async stop({ signal = 'SIGTERM', graceMs = 5_000 } = {}) {
      child.kill(signal)
      await withDeadline(graceMs, exited, () => child.kill('SIGKILL'))
      await exited
    },
  }
}

function forwardLines(child: ChildProcess, log: (line: string) => void): void {
  for (const stream of [child.stdout, child.stderr]) {
    if (stream !== null) createInterface({ input: stream }).on('line', log)
  }
}

function watchExit(child: ChildProcess, pid: number): Promise<ProcessExit> {
  return new Promise((resolve) => {
    child.once('exit', (code, signal) => {
      killGroup(pid)
      child.once('close', () => resolve({ code, signal }))
      setTimeout(() => resolve({ code, signal }), OUTPUT_GRACE_MS).unref()
    })
  })
}

/** Kills the process group. Its id cannot have been reused, because the watcher is a member. */
function killGroup(leader: number): void {
  try {
    process.kill(-leader, 'SIGKILL')
  } catch {
    // The group is already empty.
  }
}
