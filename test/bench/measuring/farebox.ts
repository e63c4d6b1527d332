import type { SandboxOptions } from '../../../infra/sandbox/sandbox.ts'
import { startStandaloneSandbox, type TestSandbox } from '../../support/processes/test-sandbox.ts'

/** Limits by client address would be the first thing to be measured: all load comes from one. */
const UNLIMITED_RATE = { REQUESTS_PER_MINUTE: '100000000', PAID_REQUESTS_PER_MINUTE: '100000000' }

/** A farebox of real processes as an operator runs it who expects load, with the jobs at once that a bench needs. */
export function startFarebox({
  jobsAtOnce = 64,
  ...options
}: Partial<SandboxOptions> & { readonly jobsAtOnce?: number } = {}): Promise<TestSandbox> {
  return startStandaloneSandbox({
    ...options,
    apiEnvironment: { ...UNLIMITED_RATE, ...options.apiEnvironment },
    workerEnvironment: { WORKER_CONCURRENCY: String(jobsAtOnce), ...options.workerEnvironment },
  })
}
