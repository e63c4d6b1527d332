import type { Registry } from 'prom-client'
import { openSharedAllowances } from '#shared/adapters/redis/shared-allowances.ts'
import type { AdmissionStore } from '#shared/jobs/admission-store.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import { createAdmission } from '../admission/admission.ts'
import { createLoadGate, type LoadLimits } from '../admission/load-gate.ts'
import { createPayingCheck } from '../admission/paying-callers.ts'
import { createQueueAgeReader } from '../admission/queue-age.ts'
import type { AppDependencies } from '../app.ts'
import type { ApiConfig } from '../config.ts'
import { createRateLimiter } from '../plugins/rate-limits.ts'
import type { Mp3Inspector } from '../request/audio/inspect-mp3.ts'
import { addLoadMetrics } from '../telemetry/metrics.ts'

export interface AdmissionOptions {
  readonly metrics: Registry
  readonly logger: Logger
  readonly mp3Inspector: Mp3Inspector
  readonly store: AdmissionStore
}

/** Composes load shedding and rate limits. */
export function composeAdmission(
  config: ApiConfig,
  resources: AsyncDisposableStack,
  { metrics, logger, mp3Inspector, store }: AdmissionOptions,
): Pick<AppDependencies, 'admission' | 'limitRate'> {
  const isPaying = createPayingCheck(config.CHALLENGE_SECRET)
  const gate = createLoadGate(loadLimits(config))
  addLoadMetrics(metrics, gate)
  const queueAge = createQueueAgeReader(store, logger, () => performance.now())
  const allowances = openSharedAllowances(config)
  resources.defer(() => allowances?.close())
  return {
    admission: createAdmission({ gate, isPaying, queueAge, mp3Inspector, store }),
    limitRate: createRateLimiter({
      requestsPerMinute: config.REQUESTS_PER_MINUTE,
      paidRequestsPerMinute: config.PAID_REQUESTS_PER_MINUTE,
      isPaying,
      shared: allowances,
      logger,
    }),
  }
}

function loadLimits(config: ApiConfig): LoadLimits {
  return {
    bodyBytes: config.MAXIMUM_BODY_MEGABYTES * 1024 * 1024,
    heldConnections: config.MAXIMUM_HELD_CONNECTIONS,
    queueAgeMs: config.MAXIMUM_QUEUE_AGE_SECONDS * 1000,
  }
}
