import { defineConfig } from 'vitest/config'

const slow = { testTimeout: 120_000, hookTimeout: 120_000 }

export default defineConfig({
  test: {
    // Real servers and processes share two cores; more at once only makes each of them slower.
    maxWorkers: 2,
    globalSetup: ['test/support/global-setup.ts'],
    projects: [
      { extends: true, test: { name: 'unit', include: ['test/unit/**/*.test.ts'] } },
      { extends: true, test: { name: 'integration', include: ['test/integration/**/*.test.ts'], ...slow } },
      { extends: true, test: { name: 'contract', include: ['test/contract/**/*.test.ts'], ...slow } },
      { extends: true, test: { name: 'end-to-end', include: ['test/end-to-end/**/*.test.ts'], ...slow } },
    ],
  },
})
