import { defineConfig } from 'vitest/config'
import { PATIENCE_MS } from './test/support/patience.ts'

/** No verdict may depend on the machine's speed: a test that awaits several states may use its patience up several times. */
const LONGEST_TEST_MS = 5 * PATIENCE_MS
/** A campaign takes minutes even here. */
const LONGEST_CAMPAIGN_MS = 30 * PATIENCE_MS

/** What a change need not wait for: `npm run test:campaigns`. */
const CAMPAIGNS = ['test/resilience/*.test.ts', 'test/**/*.long.test.ts']

const project = (name: string, include: string) => ({
  extends: true as const,
  test: { name, include: [include], exclude: CAMPAIGNS },
})

export default defineConfig({
  test: {
    // Loading the modules anew for each file would take a third of the processor time. No file leaves anything behind in them.
    isolate: false,
    // Files wait for processes and blocks as long as they compute: three at once keep two cores busy, four get in each other's way.
    maxWorkers: 3,
    testTimeout: LONGEST_TEST_MS,
    hookTimeout: LONGEST_TEST_MS,
    // Starts nothing before a test file asks for it.
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
