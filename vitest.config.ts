import { defineConfig } from 'vitest/config'

const slow = { testTimeout: 120_000, hookTimeout: 120_000 }

export default defineConfig({
  test: {
    // Files wait for processes and blocks more than they compute: four at once on two cores take a quarter less time than two.
    maxWorkers: 4,
    globalSetup: ['test/support/global-setup.ts'],
    projects: [
      { extends: true, test: { name: 'unit', include: ['test/unit/**/*.test.ts'] } },
      { extends: true, test: { name: 'integration', include: ['test/integration/**/*.test.ts'], ...slow } },
      { extends: true, test: { name: 'contract', include: ['test/contract/**/*.test.ts'], ...slow } },
      { extends: true, test: { name: 'end-to-end', include: ['test/end-to-end/**/*.test.ts'], ...slow } },
    ],
  },
})
