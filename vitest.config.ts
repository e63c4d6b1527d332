import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { PATIENCE_MS } from './test/support/patience.ts'
import { SlowestFiles } from './test/support/slowest-files.ts'

/** Several patiences, because a test may await several states: no result may depend on the speed of the machine. */
const LONGEST_TEST_MS = 5 * PATIENCE_MS
/** Campaigns take minutes even on a fast machine. */
const LONGEST_CAMPAIGN_MS = 30 * PATIENCE_MS

/** Files that take minutes start first, so that no worker ends long after the others. */
const SLOW = [
  'system/campaigns',
  'system/deployment/proxies',
  'system/console/pages',
  'system/processes/sandbox',
  'nightly/',
]

function rank({ moduleId }: TestSpecification): number {
  const found = SLOW.findIndex((slow) => moduleId.includes(`/test/${slow}`))
  return found === -1 ? SLOW.length : found
}

class SlowFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    return (await super.sort(files)).toSorted((one, other) => rank(one) - rank(other))
  }
}

const project = (name: string, include: string[], longestMs: number) => ({
  extends: true as const,
  test: { name, include, testTimeout: longestMs, hookTimeout: longestMs },
})

export default defineConfig({
  test: {
    // Reloading the modules for each file would take a third of the processor time. No file changes their state.
    isolate: false,
    // Half of a file's time is waiting for processes and blocks: three files keep two cores busy, four slow each other down.
    maxWorkers: 3,
    sequence: { sequencer: SlowFirst },
    reporters: ['default', new SlowestFiles()],
    // Starts nothing until a test file asks for it.
    globalSetup: ['test/support/processes/global-setup.ts'],
    expect: { poll: { timeout: PATIENCE_MS, interval: 20 } },
    // One project a command: its workers load each module once, for all folders.
    projects: [
      project('change', ['test/{unit,integration,contract,end-to-end,resilience}/**/*.test.ts'], LONGEST_TEST_MS),
      project('system', ['test/system/**/*.test.ts'], LONGEST_CAMPAIGN_MS),
      // Packages of its own, which `npm run test:sdks` installs.
      project('sdks', ['test/sdks/**/*.test.ts'], LONGEST_CAMPAIGN_MS),
      project('nightly', ['test/nightly/**/*.test.ts'], LONGEST_CAMPAIGN_MS),
    ],
  },
})
