import type { Registry } from 'prom-client'
import { openSharedRateBuckets } from '#shared/adapters/redis/shared-rate-buckets.ts'
import type { AcceptanceStore } from '#shared/ledger/acceptance/acceptance-store.ts'
import type { AuthorizationVerifier } from '#shared/payment/facilitator.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import type { AppDependencies } from '../app.ts'
import type { ApiConfig } from '../config.ts'
import { createAdmission, createQueueAgeReader } from '../limits/admission.ts'
import { createLoadGate, type LoadLimits } from '../limits/load-gate.ts'
import { createPayingCallers } from '../limits/paying-callers.ts'
import { createRateBuckets, type RateBuckets } from '../limits/rate-buckets.ts'
import { createRateLimiter, createUnreadLimiter, createVerificationLimiter } from '../limits/rate-limits.ts'
import { createPayerMemory } from '../paid-request/pay/payer-memory.ts'
import type { Mp3Inspector } from '../request/audio/inspect-mp3.ts'
import { addLoadMetrics } from '../telemetry/metrics.ts'

const SPEED_CHECK_MS = 1000

/** How many of the waiting callers one payer and one client may be. */
const HELD_SHARE_OF_PAYER = 2 / 5
const HELD_SHARE_OF_CLIENT = 1 / 2
/** A client that retries while its earlier connection is not yet known to be lost holds two. */
const HELD_PER_JOB = 3

export interface AdmissionOptions {
  readonly metrics: Registry
  readonly rateBuckets: RateBuckets
  readonly logger: Logger
  readonly mp3Inspector: Mp3Inspector
  readonly expectUpload: () => void
  readonly store: AcceptanceStore
  readonly verifier: Pick<AuthorizationVerifier, 'isSignedByPayer'>
}

/** Opens the rate buckets of clients, which the processes share through the queue's Redis. */
export function openRateBuckets(config: ApiConfig, resources: AsyncDisposableStack, logger: Logger): RateBuckets {
  const shared = openSharedRateBuckets(config)
  resources.defer(() => shared?.close())
  return createRateBuckets({ shared, logger })
}

/** Composes load shedding and rate limits. */
export function composeAdmission(
  config: ApiConfig,
  resources: AsyncDisposableStack,
  { metrics, rateBuckets, logger, mp3Inspector, expectUpload, store, verifier }: AdmissionOptions,
): Pick<AppDependencies, 'admission' | 'limitRate' | 'limitUnread' | 'limitVerifications' | 'payers'> {
  const payers = createPayerMemory(undefined, (authorization) => verifier.isSignedByPayer(authorization))
  const payingCallers = createPayingCallers({
    challengeSecrets: config.CHALLENGE_SECRET,
    isSignedByKey: (authorization) => verifier.isSignedByPayer(authorization) === 'key',
    isRefused: (authorization) => payers.findRefusal(authorization) !== null,
    isKnown: (payer) => payers.isKnown(payer),
  })
  const gate = createLoadGate(loadLimits(config))
  addLoadMetrics(metrics, gate)
  const judging = setInterval(() => gate.judgeSpeeds(), SPEED_CHECK_MS)
  resources.defer(() => clearInterval(judging))
  const queueAge = createQueueAgeReader(store, logger, () => performance.now())
  return {
    payers,
    admission: createAdmission({ gate, payingCallers, queueAge, mp3Inspector, expectUpload, store }),
    limitRate: createRateLimiter({
      rateBuckets,
      requestsPerMinute: config.REQUESTS_PER_MINUTE,
      isKnownPayer: payingCallers.isKnownPayer,
    }),
    limitUnread: createUnreadLimiter(rateBuckets, config.REQUESTS_PER_MINUTE),
    limitVerifications: createVerificationLimiter(rateBuckets, config.NEW_PAYER_VERIFICATIONS_PER_MINUTE),
  }
}

function loadLimits(config: ApiConfig): LoadLimits {
  const total = config.MAXIMUM_HELD_CONNECTIONS
  return {
    bodyBytes: config.MAXIMUM_BODY_MEGABYTES * 1024 * 1024,
    held: {
      total,
      perPayer: Math.ceil(total * HELD_SHARE_OF_PAYER),
      perClient: Math.ceil(total * HELD_SHARE_OF_CLIENT),
      perJob: HELD_PER_JOB,
    },
    queueAgeMs: config.MAXIMUM_QUEUE_AGE_SECONDS * 1000,
  }
}
