import fastify, { type FastifyInstance } from 'fastify'
import type { Catalog } from '#shared/catalog/catalog.ts'
import type { ObjectLinks } from '#shared/media/object-store.ts'
import { operations } from '#shared/operations/registry.ts'
import type { BalanceReader } from '#shared/payment/balance-reader.ts'
import type { Admission } from './admission/admission.ts'
import { REQUEST_TIMEOUT_MS } from './admission/load-gate.ts'
import type { RequestMetrics } from './metrics.ts'
import type { PaidRequestDependencies } from './paid-request/handle-paid-request.ts'
import { addCors } from './plugins/cors.ts'
import { addDraining } from './plugins/draining.ts'
import { addErrorHandling, refuseMalformedHttp } from './plugins/errors.ts'
import { addJsonBodies } from './plugins/json-bodies.ts'
import type { RateLimiter } from './plugins/rate-limits.ts'
import { addRequestContext, newRequestId } from './plugins/request-context.ts'
import { addRequestTelemetry } from './plugins/request-telemetry.ts'
import { readQuotedRequest } from './request/effective-request.ts'
import { addBalanceRoutes } from './routes/balance.ts'
import { addDiscoveryRoutes } from './routes/discovery.ts'
import { addHealthRoutes, type ReadinessChecks, type ReadinessWarnings } from './routes/health.ts'
import { addMediaRoutes } from './routes/media.ts'
import { addModelRoutes } from './routes/models.ts'
import { addOperatorBoard, type OperatorBoard } from './routes/operator-board.ts'
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

export interface AppDependencies extends PaidRequestDependencies {
  /** Whether a thrown error means that a dependency, not the request, is at fault. */
  readonly isDependencyFailure: (error: unknown) => boolean
  readonly admission: Admission
  readonly holdMs: number
  /** Aborts when the process is told to stop: it is not ready any more, and still serves whoever comes. */
  readonly draining: AbortSignal
  /** How often held callers get an interim answer; 0 is never. */
  readonly interimAnswerMs: number
  /** Aborts when held callers must be let go because the process stops. */
  readonly stopping: AbortSignal
  readonly limitRate: RateLimiter
  readonly readinessChecks: ReadinessChecks
  readonly readinessWarnings: ReadinessWarnings
  readonly balances: BalanceReader
  /** `null` without an operator's token. */
  readonly operatorBoard: OperatorBoard | null
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
    // A request that is read after all is served, with an answer of ours.
    return503OnClosing: false,
    clientErrorHandler: refuseMalformedHttp,
    routerOptions: { ignoreTrailingSlash: false },
  })
  app.removeAllContentTypeParsers()
  addJsonBodies(app, dependencies.admission)
  continueBeforeBodies(app)
  addRequestTelemetry(app, { ...dependencies, operations })
  addRequestContext(app, dependencies.logger)
  addDraining(app, dependencies.draining)
  await addCors(app)
  addErrorHandling(app, dependencies.isDependencyFailure, dependencies.logger)
  await addRoutes(app, dependencies)
  return app
}

/** Who asks before he sends his body (`Expect: 100-continue`) is told to when it is to be read: the refused need not send it. */
function continueBeforeBodies(app: FastifyInstance): void {
  app.server.on('checkContinue', (request, response) => app.server.emit('request', request, response))
  app.addHook('preParsing', (request, reply, payload, done) => {
    if (request.headers.expect?.toLowerCase() === '100-continue') reply.raw.writeContinue()
    done(null, payload)
  })
}

async function addRoutes(app: FastifyInstance, dependencies: AppDependencies): Promise<void> {
  const { limitRate } = dependencies
  addHealthRoutes(app, dependencies.readinessChecks, dependencies.readinessWarnings, dependencies.draining)
  addModelRoutes(app, dependencies)
  addPricingRoutes(app, dependencies)
  addVoiceRoutes(app, dependencies)
  addBalanceRoutes(app, dependencies)
  addQuoteRoutes(app, {
    ...dependencies,
    readQuotedRequest: (body) => readQuotedRequest(dependencies, body),
  })
  addReceiptRoutes(app, dependencies)
  addMediaRoutes(app, dependencies)
  await addPaidRoutes(app, dependencies, { ...dependencies, limitRate })
  await addDiscoveryRoutes(app, { ...dependencies, operations })
  await addOperatorBoard(app, dependencies.operatorBoard)
}
