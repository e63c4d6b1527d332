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

/** npm sends on what a terminal, or `timeout`, has sent to all of its processes already: one Ctrl-C arrives twice. */
const SENT_ON_WITHIN_MS = 500

/** Starts to listen for signals, so that one during startup is not lost. A later signal ends the process immediately. */
export function listenForStopSignals() {
  const received = Promise.withResolvers<string>()
  let firstMs: number | undefined
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => {
      firstMs ??= performance.now()
      // Every part is a guarded process, which ends together with this one.
      if (performance.now() - firstMs > SENT_ON_WITHIN_MS) process.exit(130)
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
