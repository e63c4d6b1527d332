import { defineConfig } from 'vitest/config'
import { PATIENCE_MS } from './test/support/patience.ts'

/** Several patiences, because a test may await several states: no result may depend on the speed of the machine. */
const LONGEST_TEST_MS = 5 * PATIENCE_MS
/** Campaigns take minutes even on a fast machine. */
const LONGEST_CAMPAIGN_MS = 30 * PATIENCE_MS

/** Long tests that a change need not wait for; `npm run test:campaigns` runs them. */
const CAMPAIGNS = ['test/resilience/*.test.ts', 'test/**/*.long.test.ts']

const project = (name: string, include: string) => ({
  extends: true as const,
  test: { name, include: [include], exclude: CAMPAIGNS },
})

export default defineConfig({
  test: {
    // Reloading the modules for each file would take a third of the processor time. No file changes their state.
    isolate: false,
    // Half of a file's time is waiting for processes and blocks: three files keep two cores busy, four slow each other down.
    maxWorkers: 3,
    testTimeout: LONGEST_TEST_MS,
    hookTimeout: LONGEST_TEST_MS,
    // Starts nothing until a test file asks for it.
    globalSetup: ['test/support/processes/global-setup.ts'],
    expect: { poll: { timeout: PATIENCE_MS, interval: 20 } },
    projects: [
      project('unit', 'test/unit/**/*.test.ts'),
      project('integration', 'test/integration/**/*.test.ts'),
      project('contract', 'test/contract/**/*.test.ts'),
      project('end-to-end', 'test/end-to-end/**/*.test.ts'),
      project('harness', 'test/resilience/*/**/*.test.ts'),
      {
        extends: true,
        test: {
          name: 'campaigns',
          include: CAMPAIGNS,
          testTimeout: LONGEST_CAMPAIGN_MS,
          hookTimeout: LONGEST_CAMPAIGN_MS,
        },
      },
    ],
  },
})
