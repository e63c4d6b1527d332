import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'

/**
 * A POSIX shell program that leaves a watcher behind and then becomes the guarded program.
 *
 * Linux's parent-death signal has no counterpart on macOS, but a pipe works everywhere: the kernel closes the
 * supervisor's end (our descriptor 0) whatever way the supervisor dies, and the watcher's `read` ends. The watcher is a
 * shell of about 1 MB, where a Node process would take 45 MB. It is started from a subshell that ends at once, so that
 * the program gets no child it does not know; the program keeps the process id and default signal handling. The script
 * is passed inline, because another user may not be able to read this folder.
 *
 * The last line ends the process group: the program, what it left behind, and the watcher itself.
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

/** Last words may still be in the output pipes when a program has ended; a detached grandchild may hold those open. */
const LAST_WORDS_MS = 2_000

/** What to run, and as whom. */
export interface GuardedProcessOptions {
  command: string
  args?: readonly string[]
  /** The whole environment of the program; the supervisor's own when left out. */
  env?: NodeJS.ProcessEnv
  cwd?: string
  /** Receives each line of standard output and standard error; both are discarded when left out. */
  log?: ((line: string) => void) | undefined
  /** The signal that asks the program to end when the supervisor has died; SIGTERM when left out. */
  orphanSignal?: NodeJS.Signals
  /** How long an orphaned program may take to end before SIGKILL, in steps of 100 ms; 1,000 when left out. */
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
  /** Resolves when the program has ended for whatever reason; never rejects. A missing command ends with code 127. */
  exited: Promise<ProcessExit>
  /**
   * Sends `signal` (SIGTERM when left out), then SIGKILL after `graceMs` (5,000 when left out). Resolves once the program
   * has ended; safe to repeat.
   */
  stop: (options?: { signal?: NodeJS.Signals; graceMs?: number }) => Promise<void>
}

/**
 * Starts a program that dies with this process, whatever way this process dies: exit, crash or SIGKILL.
 *
 * An orphan gets `orphanSignal`, then SIGKILL after `orphanGraceMs`. However the program ends, processes that it started
 * and left in its process group end with it. It runs in its own session, so Ctrl-C in a terminal reaches only the
 * supervisor, which decides the order of shutdown. Linux and macOS.
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
  // Reported below for a failed start; nothing is ever written to standard input, so its errors say nothing.
  child.on('error', () => undefined)
  child.stdin?.on('error', () => undefined)
  const { pid } = child
  if (pid === undefined) throw new Error(`Cannot start ${command} in ${cwd ?? process.cwd()}`)
  forwardLines(child, log)
  const exited = watchExit(child, pid)
  return {
    pid,
    exited,
    async stop({ signal = 'SIGTERM', graceMs = 5_000 } = {}) {
      child.kill(signal)
      const grace = new AbortController()
      const timeout = delay(graceMs, 'timeout', { signal: grace.signal }).catch(() => 'aborted')
      const first = await Promise.race([exited, timeout])
      grace.abort()
      if (first === 'timeout') child.kill('SIGKILL')
      await exited
    },
  }
}

function forwardLines(child: ChildProcess, log: ((line: string) => void) | undefined): void {
  if (log === undefined) return
  for (const stream of [child.stdout, child.stderr]) {
    if (stream !== null) createInterface({ input: stream }).on('line', log)
  }
}

function watchExit(child: ChildProcess, pid: number): Promise<ProcessExit> {
  return new Promise((resolve) => {
    child.once('exit', (code, signal) => {
      killGroup(pid)
      child.once('close', () => resolve({ code, signal }))
      setTimeout(() => resolve({ code, signal }), LAST_WORDS_MS).unref()
    })
  })
}

/** The watcher is a member of the group, so its number cannot have been given to anybody else. */
function killGroup(leader: number): void {
  try {
    process.kill(-leader, 'SIGKILL')
  } catch {
    // The group is empty already.
  }
}
