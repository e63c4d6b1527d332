import { setTimeout as delay } from 'node:timers/promises'
import type { TestSandbox } from '../../support/processes/test-sandbox.ts'
import type { ServiceKill } from './draw-kills.ts'

const POLL_MS = 50

/** Kills and restarts API and worker at the drawn moments, until the batch ends; returns how often. */
export async function killService(
  sandbox: TestSandbox,
  kills: readonly ServiceKill[],
  countFinished: () => Promise<number>,
  ending: AbortSignal,
): Promise<number> {
  let killed = 0
  for (const { afterFinished, delayMs, part } of kills) {
    while (!ending.aborted && (await countFinished()) < afterFinished) await delay(POLL_MS)
    await delay(delayMs, undefined, { signal: ending }).catch(() => undefined)
    if (ending.aborted) break
    process.kill(sandbox.pidOf(part), 'SIGKILL')
    await sandbox.restart(part)
    killed += 1
  }
  return killed
}
