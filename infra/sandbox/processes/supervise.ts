import { setTimeout as delay } from 'node:timers/promises'
import type { Sandbox } from '../sandbox.ts'

const PARENT_POLL_MS = 500

export type StopReason = Awaited<ReturnType<typeof untilStop>>

/** Resolves when the sandbox should stop: on a signal, when its parent npm process has exited, or when a part has ended. */
export function untilStop(sandbox: Sandbox, signals: ReturnType<typeof listenForStopSignals>) {
  return Promise.race([
    signals.received.then((signal) => ({ reason: 'signal', signal }) as const),
    untilParentGone().then(() => ({ reason: 'parent gone' }) as const),
    sandbox.crashed.then(({ part, exit }) => ({
      reason: 'crash' as const,
      part,
      how: exit.signal ?? `exit code ${exit.code}`,
    })),
  ])
}

/** Starts to listen for signals, so that one during startup is not lost. A second signal ends the process immediately. */
export function listenForStopSignals() {
  const received = Promise.withResolvers<string>()
  let count = 0
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => {
      count += 1
      // Every part is a guarded process, which ends together with this one.
      if (count > 1) process.exit(130)
      received.resolve(signal)
    })
  }
  return { received: received.promise }
}

/** Resolves when the parent npm process has exited: npm does not forward a SIGKILL, and the sandbox would run forever. */
async function untilParentGone(): Promise<void> {
  // Started without npm, and perhaps meant to outlive the shell.
  if (process.env['npm_lifecycle_event'] === undefined) return new Promise(() => undefined)
  const parent = process.ppid
  do await delay(PARENT_POLL_MS, undefined, { ref: false })
  while (process.ppid === parent)
}
