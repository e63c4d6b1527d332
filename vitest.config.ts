import { defineConfig, type TestProjectInlineConfiguration } from 'vitest/config'
import { PATIENCE_MS } from './test/support/patience.ts'

/** No verdict may depend on the machine's speed: a test that awaits several states may use its patience up several times. */
const LONGEST_TEST_MS = 5 * PATIENCE_MS

function project(name: string, include: string, more: TestProjectInlineConfiguration['test'] = {}) {
  return {
    extends: true as const,
    test: { name, include: [include], testTimeout: LONGEST_TEST_MS, hookTimeout: LONGEST_TEST_MS, ...more },
  }
}

const globalSetup = ['test/support/global-setup.ts']

export default defineConfig({
  test: {
    // Files wait for processes and blocks more than they compute: four at once on two cores take a quarter less time than two.
    maxWorkers: 4,
    expect: { poll: { timeout: PATIENCE_MS, interval: 20 } },
    projects: [
      project('unit', 'test/unit/**/*.test.ts'),
      project('integration', 'test/integration/**/*.test.ts', { globalSetup }),
      project('contract', 'test/contract/**/*.test.ts', { globalSetup }),
      project('end-to-end', 'test/end-to-end/**/*.test.ts', { globalSetup }),
      project('harness', 'test/resilience/*/**/*.test.ts', { globalSetup }),
      project('campaigns', 'test/resilience/*.test.ts', { globalSetup }),
    ],
  },
})
