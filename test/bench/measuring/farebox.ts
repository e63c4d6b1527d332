import type { SandboxOptions } from '../../../infra/sandbox/sandbox-options.ts'
import { startStandaloneSandbox, type TestSandbox } from '../../support/processes/test-sandbox.ts'

/** All load comes from one client address, so its rate limits would be the first bottleneck. */
const UNLIMITED_RATE = {
  REQUESTS_PER_MINUTE: '100000000',
  PAID_REQUESTS_PER_MINUTE: '100000000',
  NEW_PAYER_VERIFICATIONS_PER_MINUTE: '100000000',
}

/** Starts a farebox of real processes, configured for load. */
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
