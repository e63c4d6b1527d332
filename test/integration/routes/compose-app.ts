import { randomUUID } from 'node:crypto'
import fastify, { type FastifyInstance } from 'fastify'
import type { Catalog } from '#shared/catalog/catalog.ts'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import type { PaymentTerms } from '#shared/payment/payment-terms.ts'
import { createStatementSigner } from '#shared/payment/statement-signer.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import { createAdmission } from '../../../api/limits/admission.ts'
import { createLoadGate } from '../../../api/limits/load-gate.ts'
import { createRateBuckets } from '../../../api/limits/rate-buckets.ts'
import { createRateLimiter, type RateLimiter } from '../../../api/limits/rate-limits.ts'
import { createListings } from '../../../api/paid-request/quote/listing.ts'
import { addCors } from '../../../api/plugins/cors.ts'
import { addErrorHandling } from '../../../api/plugins/errors.ts'
import { addJsonBodies } from '../../../api/plugins/json-bodies.ts'
import { addRequestContext, newRequestId } from '../../../api/plugins/request-context.ts'
import { addModelRoutes } from '../../../api/routes/models.ts'
import { addPricingRoutes } from '../../../api/routes/pricing.ts'
import { addVoiceRoutes } from '../../../api/routes/voices.ts'

export const PUBLIC_BASE_URL = 'https://farebox.example'

export const terms: PaymentTerms = {
  network: 'eip155:8453',
  asset: '0x833589fcd6edb6e08f4c7c32d4f71b54bda02913',
  spender: '0x4020a4f3b7b90cca423b9fabcc0ce57c6c240002',
  permit2: '0x000000000022d473030f116ddee9f6b43ac78ba3',
  payTo: '0x1111111111111111111111111111111111111111',
  acceptedRecipients: ['0x1111111111111111111111111111111111111111'],
  facilitators: ['0x2222222222222222222222222222222222222222'],
  settlementContract: null,
  acceptedFacilitators: ['0x2222222222222222222222222222222222222222'],
  formerFacilitators: [],
  maxTimeoutSeconds: 900,
  minimumRemainingSeconds: 360,
  outputTokensPerSecond: 128,
  challengeLifetimeSeconds: 600,
}

/** Two keys, as after a rotation. */
export const signer = createStatementSigner(PUBLIC_BASE_URL, [
  { id: 'k2', seed: '22'.repeat(32) },
  { id: 'k1', seed: '11'.repeat(32) },
])

export const listings = createListings({
  catalog: () => publishedCatalog,
  publicBaseUrl: PUBLIC_BASE_URL,
  newKey: randomUUID,
  takesLastingPermits: false,
})

const silent: Logger = { info: () => undefined, warn: () => undefined, error: () => undefined }

/** Creates the rate buckets of a single process. */
export const newRateBuckets = () => createRateBuckets({ shared: null, logger: silent })

/** Creates the limits of a single process. */
export function limitTo(requestsPerMinute: number): RateLimiter {
  return createRateLimiter({
    rateBuckets: newRateBuckets(),
    requestsPerMinute,
    isKnownPayer: () => false,
  })
}

/** Limits higher than any test reaches. */
export const limitRate = limitTo(1_000_000)

/** Admits everything that a test sends. */
export const admission = createAdmission({
  gate: createLoadGate({
    bodyBytes: 1024 ** 3,
    held: { total: 1000, perPayer: 1000, perClient: 1000, perJob: 1000 },
    queueAgeMs: 1000,
  }),
  payingCallers: { isPaying: () => false, isKnownPayer: () => false },
  queueAge: async () => 0,
  mp3Inspector: { retryAfterSeconds: () => null },
  expectUpload: () => undefined,
  store: { hasJob: async () => false, findBinding: async () => null },
})

/** Composes the API's plugins with some of its routes. */
export async function composeApp(addRoutes: (app: FastifyInstance) => void | Promise<void>): Promise<FastifyInstance> {
  const app = fastify({ logger: false, genReqId: newRequestId, requestIdHeader: false })
  app.removeAllContentTypeParsers()
  addJsonBodies(app, admission, { expectBody: () => undefined })
  addRequestContext(app, silent)
  addCors(app)
  addErrorHandling(app, () => false, silent)
  await addRoutes(app)
  return app
}

/** Composes the three lists of a catalog. */
export function composeLists(
  catalog: Catalog = publishedCatalog,
  now: () => Date = () => new Date(),
): Promise<FastifyInstance> {
  const current = () => catalog
  return composeApp((app) => {
    addModelRoutes(app, { catalog: current })
    addPricingRoutes(app, { readChargeGas: null, catalog: current })
    addVoiceRoutes(app, { catalog: current, now })
  })
}
