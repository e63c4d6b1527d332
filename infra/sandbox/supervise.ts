import { setTimeout as delay } from 'node:timers/promises'
import type { Sandbox } from './sandbox.ts'

const PARENT_LOOK_MS = 500

export type StopReason =
  | { reason: 'signal'; signal: string }
  | { reason: 'parent gone' }
  | { reason: 'crash'; part: string; how: string }

/** Resolves when the sandbox should stop: on a signal, when the npm that ran us is gone, or when a part has ended. */
export function untilStop(sandbox: Sandbox, signals: StopSignals): Promise<StopReason> {
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

export interface StopSignals {
  received: Promise<string>
}

/** Starts to listen at once, so that a signal during start-up is not lost. A second one ends the process at once. */
export function listenForStopSignals(): StopSignals {
  const received = Promise.withResolvers<string>()
  let count = 0
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => {
      count += 1
      // Every part is guarded: it ends by itself when this process is gone.
      if (count > 1) process.exit(130)
      received.resolve(signal)
    })
  }
  return { received: received.promise }
}

/** npm that is killed does not pass the signal on; without it nobody would ever stop the sandbox. */
async function untilParentGone(): Promise<void> {
  // Started by hand, and so perhaps meant to outlive the shell.
  if (process.env['npm_lifecycle_event'] === undefined) return new Promise(() => undefined)
  const parent = process.ppid
  do await delay(PARENT_LOOK_MS, undefined, { ref: false })
  while (process.ppid === parent)
}
