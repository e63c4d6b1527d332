import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { startStandaloneSandbox, type TestSandbox } from '../../support/processes/test-sandbox.ts'

/** What an API process saw of itself since it was asked last. */
export interface Observation {
  /** The longest time for which its event loop did nothing else. */
  readonly longestBlockMs: number
  /** The same in processor time: what other processes of a busy machine take from it does not count. */
  readonly longestBusyMs: number
  readonly p99BlockMs: number
  readonly peakResidentBytes: number
  readonly residentBytes: number
}

const ASK_AGAIN_MS = 20

/** A sandbox whose API can be asked how it fared. */
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
        await delay(ASK_AGAIN_MS)
      }
    },
    stop: async () => {
      await sandbox.stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}
