import multipart from '@fastify/multipart'
import fastify, { type FastifyInstance } from 'fastify'
import type { Catalog } from '#shared/catalog/catalog.ts'
import type { ObjectLinks } from '#shared/media/object-store.ts'
import { operations } from '#shared/operations/registry.ts'
import type { BalanceReader } from '#shared/payment/balance-reader.ts'
import type { RequestMetrics } from './metrics.ts'
import { readEffectiveBody } from './paid-request/effective-request.ts'
import type { PaidRequestDependencies } from './paid-request/handle-paid-request.ts'
import { parseJsonBody } from './paid-request/read-json-request.ts'
import { addCors } from './plugins/cors.ts'
import { addErrorHandling, refuseMalformedHttp } from './plugins/errors.ts'
import type { RateLimiter } from './plugins/rate-limits.ts'
import { addRequestContext, newRequestId } from './plugins/request-context.ts'
import { addRequestTelemetry } from './plugins/request-telemetry.ts'
import { addBalanceRoutes } from './routes/balance.ts'
import { addDiscoveryRoutes } from './routes/discovery.ts'
import { addHealthRoutes, type ReadinessChecks, type ReadinessWarnings } from './routes/health.ts'
import { addMediaRoutes } from './routes/media.ts'
import { addModelRoutes } from './routes/models.ts'
import { addPaidRoutes } from './routes/paid.ts'
import { addPricingRoutes } from './routes/pricing.ts'
import { addQuoteRoutes } from './routes/quotes.ts'
import { addReceiptRoutes } from './routes/receipts.ts'
import { addVoiceRoutes } from './routes/voices.ts'

/**
 * No valid body is larger: the longest audio_base64 is 34,952,536 characters, some JSON writers escape each slash in it,
 * and the rest is small. Refused while it still arrives.
 */
const MAXIMUM_BODY_BYTES = 40 * 1024 * 1024

/** From the first byte to the last of a request; 25 MiB take this long at 0.9 Mbit/s. */
const REQUEST_TIMEOUT_MS = 240_000

export interface AppDependencies extends PaidRequestDependencies {
  /** Whether a thrown error means that a dependency, not the request, is at fault. */
  readonly isDependencyFailure: (error: unknown) => boolean
  readonly holdMs: number
  /** Aborts when held callers must be let go because the process stops. */
  readonly stopping: AbortSignal
  readonly limitRate: RateLimiter
  readonly readinessChecks: ReadinessChecks
  readonly readinessWarnings: ReadinessWarnings
  readonly balances: BalanceReader
  readonly requestMetrics: RequestMetrics
  /** `null` when media are served by this process. */
  readonly mediaLinks: ObjectLinks | null
  /** Everything that is published, available now or not: the interface description does not change with availability. */
  readonly publishedCatalog: Catalog
  readonly contactEmail: string
  /** Whose `X-Forwarded-For` counts; exactly these, since rate limits go by the caller's address. */
  readonly trustedProxies: string[] | undefined
}

/** The whole HTTP surface over its dependencies; listening and stopping are the caller's. */
export async function buildApp(dependencies: AppDependencies): Promise<FastifyInstance> {
  const app = fastify({
    logger: false,
    genReqId: newRequestId,
    requestIdHeader: false,
    trustProxy: dependencies.trustedProxies ?? false,
    bodyLimit: MAXIMUM_BODY_BYTES,
    requestTimeout: REQUEST_TIMEOUT_MS,
    forceCloseConnections: 'idle',
    clientErrorHandler: refuseMalformedHttp,
    routerOptions: { ignoreTrailingSlash: false },
  })
  app.removeAllContentTypeParsers()
  // A probe may name JSON and send nothing.
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, async (_request: unknown, body: Buffer) =>
    body.length === 0 ? undefined : parseJsonBody(body),
  )
  await app.register(multipart)
  addRequestTelemetry(app, { ...dependencies, operations })
  addRequestContext(app, dependencies.logger)
  await addCors(app)
  addErrorHandling(app, dependencies.isDependencyFailure, dependencies.logger)
  await addRoutes(app, dependencies)
  return app
}

async function addRoutes(app: FastifyInstance, dependencies: AppDependencies): Promise<void> {
  const { limitRate } = dependencies
  addHealthRoutes(app, dependencies.readinessChecks, dependencies.readinessWarnings)
  addModelRoutes(app, dependencies)
  addPricingRoutes(app, dependencies)
  addVoiceRoutes(app, dependencies)
  addBalanceRoutes(app, dependencies)
  addQuoteRoutes(app, {
    ...dependencies,
    operations,
    readEffectiveBody: (operation, body) => readEffectiveBody(dependencies, operation, body),
  })
  addReceiptRoutes(app, dependencies)
  addMediaRoutes(app, dependencies)
  addPaidRoutes(app, dependencies, { ...dependencies, limitRate })
  await addDiscoveryRoutes(app, { ...dependencies, operations })
}
