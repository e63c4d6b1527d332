import fastify, { type FastifyInstance } from 'fastify'
import type { Catalog } from '#shared/catalog/catalog.ts'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import type { PaymentTerms } from '#shared/payment/payment-terms.ts'
import { createStatementSigner } from '#shared/payment/statement-signer.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import { parseJsonBody } from '../../../api/paid-request/read-json-request.ts'
import { addCors } from '../../../api/plugins/cors.ts'
import { addErrorHandling } from '../../../api/plugins/errors.ts'
import { createRateLimiter } from '../../../api/plugins/rate-limits.ts'
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
  facilitators: ['0x2222222222222222222222222222222222222222'],
  maxTimeoutSeconds: 900,
  minimumRemainingSeconds: 360,
  challengeLifetimeSeconds: 600,
}

/** Two keys, as after a rotation. */
export const signer = createStatementSigner(PUBLIC_BASE_URL, [
  { id: 'k2', seed: '22'.repeat(32) },
  { id: 'k1', seed: '11'.repeat(32) },
])

/** More than any test asks for. */
export const limitRate = createRateLimiter(1_000_000)

const silent: Logger = { info: () => undefined, warn: () => undefined, error: () => undefined }

/** The plugins of the API around some of its routes. */
export async function composeApp(addRoutes: (app: FastifyInstance) => void | Promise<void>): Promise<FastifyInstance> {
  const app = fastify({ logger: false, genReqId: newRequestId, requestIdHeader: false })
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, async (_request: unknown, body: Buffer) =>
    parseJsonBody(body),
  )
  addRequestContext(app, silent)
  await addCors(app)
  addErrorHandling(app, () => false, silent)
  await addRoutes(app)
  return app
}

/** The three lists over a catalog. */
export function composeLists(catalog: Catalog = publishedCatalog): Promise<FastifyInstance> {
  return composeApp((app) => {
    addModelRoutes(app, { catalog })
    addPricingRoutes(app, { catalog })
    addVoiceRoutes(app, { catalog })
  })
}
