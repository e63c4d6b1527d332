import type { SandboxOptions } from '../../../infra/sandbox/sandbox-options.ts'
import { startStandaloneSandbox, type TestSandbox } from '../../support/processes/test-sandbox.ts'

/** All load comes from one client address, so the limits of one network would be the first bottleneck. */
const UNLIMITED_RATE = {
  REQUESTS_PER_MINUTE: '100000000',
  NEW_PAYER_DAILY_LOSS_USDC: '1000000',
  NEW_PAYER_VERIFICATIONS_PER_MINUTE: '100000000',
  UNPAID_AUDIO_MINUTES_PER_MINUTE: '100000000',
}

/** Instead of the sandbox's patience. */
const DEFAULTS = { RPC_TIMEOUT_MS: '5000' }

/** Starts a farebox of real processes with the default settings, except for the limits of one network. */
export function startFarebox(options: Partial<SandboxOptions> = {}): Promise<TestSandbox> {
  return startStandaloneSandbox({
    ...options,
    apiEnvironment: { ...DEFAULTS, ...UNLIMITED_RATE, ...options.apiEnvironment },
    workerEnvironment: { ...DEFAULTS, ...options.workerEnvironment },
  })
}
