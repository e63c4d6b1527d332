import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { startStandaloneSandbox, type TestSandbox } from '../../support/processes/test-sandbox.ts'

/** Figures of an API process since its previous observation. */
export interface Observation {
  /** The longest time for which the event loop was blocked. */
  readonly longestBlockMs: number
  /** The same in processor time, which excludes pauses caused by other processes. */
  readonly longestBusyMs: number
  readonly p99BlockMs: number
  readonly peakResidentBytes: number
  readonly residentBytes: number
}

const POLL_MS = 20

/** Starts a sandbox whose API can be observed. */
export async function startMeasuredSandbox(
  apiEnvironment: Record<string, string> = {},
): Promise<TestSandbox & { observe(): Promise<Observation> }> {
  const folder = await mkdtemp(join(tmpdir(), 'farebox-bench-'))
  const file = join(folder, 'observation.json')
  const sandbox = await startStandaloneSandbox({
    apiEntry: 'test/bench/observed-api/main.ts',
    apiEnvironment: { ...apiEnvironment, OBSERVATION_FILE: file },
  })
  return {
    ...sandbox,
    observe: async () => {
      await rm(file, { force: true })
      process.kill(sandbox.pidOf('api'), 'SIGUSR2')
      for (;;) {
        const text = await readFile(file, 'utf8').catch(() => '')
        if (text !== '') return JSON.parse(text) as Observation
        await delay(POLL_MS)
      }
    },
    stop: async () => {
      await sandbox.stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}
