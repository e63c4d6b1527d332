import fastify, { type FastifyInstance } from 'fastify'
import type { BalanceReader } from '#shared/chain/reading/balance-reader.ts'
import type { ObjectLinks } from '#shared/media/object-store.ts'
import { operations } from '#shared/operations/registry.ts'
import type { AllowanceDependencies } from './allowances/store-permit.ts'
import { composePaidRequests, type PaidRequestParts } from './composition/paid-requests.ts'
import type { Admission } from './limits/admission.ts'
import {
  addConnectionLimits,
  type ConnectionLimits,
  HEAD_CHECK_MS,
  HEAD_TIMEOUT_MS,
} from './limits/connection-limits.ts'
import { REQUEST_TIMEOUT_MS } from './limits/load-gate.ts'
import type { RateLimiter, UnreadLimiter } from './limits/rate-limits.ts'
import { addCors } from './plugins/cors.ts'
import { addErrorHandling, answerMalformedHttp, answerUnroutable, createErrorRenderer } from './plugins/errors.ts'
import { addHttpRules } from './plugins/http-rules.ts'
import { addJsonBodies } from './plugins/json-bodies.ts'
import { addRequestContext, newRequestId } from './plugins/request-context.ts'
import { addRequestTelemetry } from './plugins/request-telemetry.ts'
import { limitUnreadAnswers } from './plugins/unread-answers.ts'
import { addAllowanceRoutes } from './routes/allowances.ts'
import { addBalanceRoutes } from './routes/balance.ts'
import { addCatalogRoutes } from './routes/catalogs.ts'
import { addDiscoveryRoutes } from './routes/discovery.ts'
import { addHealthRoutes, type ReadinessChecks, type ReadinessWarnings } from './routes/health.ts'
import { addMcpRoute } from './routes/mcp.ts'
import { addMediaRoutes } from './routes/media.ts'
import { addModelRoutes } from './routes/models.ts'
import { addPages } from './routes/pages.ts'
import { addPaidRoutes } from './routes/paid.ts'
import { addPricingRoutes } from './routes/pricing.ts'
import { addQuoteRoutes } from './routes/quotes.ts'
import { addReceiptRoutes } from './routes/receipts.ts'
import { addVoiceRoutes } from './routes/voices.ts'
import type { RequestMetrics } from './telemetry/metrics.ts'

/**
 * Larger than any valid body: the longest audio_base64 has 34,952,536 characters, some JSON writers escape each slash
 * in it, and the rest is small. Longer bodies are rejected while they arrive.
 */
const MAXIMUM_BODY_BYTES = 40 * 1024 * 1024

/** Everything that the HTTP server needs; composed at start. */
export interface AppDependencies extends PaidRequestParts {
  /** Returns whether a thrown error was caused by a dependency and not by the request. */
  readonly isDependencyFailure: (error: unknown) => boolean
  readonly admission: Admission
  readonly connectionLimits: ConnectionLimits
  readonly holdMs: number
  /** Aborts when the process begins to shut down: it reports not ready but still serves every request. */
  readonly draining: AbortSignal
  /** Aborts when held callers must be answered because the process stops. */
  readonly stopping: AbortSignal
  readonly limitRate: RateLimiter
  readonly limitUnread: UnreadLimiter
  readonly readinessChecks: ReadinessChecks
  readonly readinessWarnings: ReadinessWarnings
  readonly balances: BalanceReader
  readonly allowances: AllowanceDependencies
  readonly requestMetrics: RequestMetrics
  /** `null` when this process serves the media itself. */
  readonly mediaLinks: ObjectLinks | null
  readonly contactEmail: string
  /** Where to report a vulnerability; `undefined` without a published contact. */
  readonly securityContact: string | undefined
  /** Proxies whose `X-Forwarded-For` is trusted, since rate limits are per caller address. */
  readonly trustedProxies: string[] | undefined
}

/** Builds the whole HTTP server; the caller starts and stops it. */
export async function buildApp(dependencies: AppDependencies): Promise<FastifyInstance> {
  const app = fastify({
    logger: false,
    genReqId: newRequestId,
    requestIdHeader: false,
    trustProxy: dependencies.trustedProxies ?? false,
    bodyLimit: MAXIMUM_BODY_BYTES,
    requestTimeout: REQUEST_TIMEOUT_MS,
    http: {
      headersTimeout: HEAD_TIMEOUT_MS,
      connectionsCheckingInterval: HEAD_CHECK_MS,
      // Node would answer without a body; the HTTP rules require the header.
      requireHostHeader: false,
    },
    forceCloseConnections: 'idle',
    // A request that still arrives while closing is served normally instead of getting Fastify's own 503.
    return503OnClosing: false,
    clientErrorHandler: answerMalformedHttp,
    frameworkErrors: answerUnroutable,
    routerOptions: { ignoreTrailingSlash: false },
  })
  app.removeAllContentTypeParsers()
  addJsonBodies(app, dependencies.admission, dependencies.preparer)
  addRequestTelemetry(app, { ...dependencies, operations })
  addRequestContext(app, dependencies.logger)
  addDraining(app, dependencies.draining)
  addConnectionLimits(app, dependencies.connectionLimits, dependencies.trustedProxies)
  limitUnreadAnswers(app)
  addCors(app)
  addHttpRules(app)
  continueAfterAdmission(app)
  addErrorHandling(app, dependencies.isDependencyFailure, dependencies.logger)
  await addRoutes(app, dependencies)
  return app
}

/** Sends `100 Continue` only after admission, so that a rejected client never uploads its body. */
function continueAfterAdmission(app: FastifyInstance): void {
  app.server.on('checkContinue', (request, response) => app.server.emit('request', request, response))
  // Node would answer 417 without a body; the HTTP rules refuse other expectations.
  app.server.on('checkExpectation', (request, response) => app.server.emit('request', request, response))
  app.addHook('preParsing', (request, reply, payload, done) => {
    if (request.headers.expect?.toLowerCase() === '100-continue') {
      // A client of HTTP/1.0 would take it for the answer (RFC 9110, 10.1.1).
      if (request.raw.httpVersion !== '1.0') reply.raw.writeContinue()
      // From here on the client sends: a refusal must wait for what is still under way, as without the header.
      delete request.raw.headers.expect
    }
    done(null, payload)
  })
}

async function addRoutes(app: FastifyInstance, dependencies: AppDependencies): Promise<void> {
  const { limitRate, catalogs } = dependencies
  const catalog = catalogs.offered
  addHealthRoutes(app, dependencies.readinessChecks, dependencies.readinessWarnings, dependencies.draining)
  addModelRoutes(app, { catalog })
  addPricingRoutes(app, { ...dependencies, catalog })
  addCatalogRoutes(app, dependencies)
  addVoiceRoutes(app, { ...dependencies, catalog })
  addBalanceRoutes(app, dependencies)
  addAllowanceRoutes(app, dependencies)
  const handlers = composePaidRequests(dependencies)
  await addQuoteRoutes(app, { ...dependencies, ...handlers })
  addReceiptRoutes(app, dependencies)
  addMediaRoutes(app, dependencies)
  await addPaidRoutes(app, { ...dependencies, handlers }, { ...dependencies, limitRate })
  const renderError = createErrorRenderer(dependencies.isDependencyFailure, dependencies.logger)
  addMcpRoute(app, { ...dependencies, ...handlers, handlers, limits: dependencies, renderError })
  addPages(app, { ...dependencies, catalog })
  addDiscoveryRoutes(app, { ...dependencies, operations, catalog, publishedCatalog: catalogs.published })
}

/**
 * Closes each connection after its response once `draining` has aborted, so that proxies with keep-alive connections
 * send their next request to another process and no connection is closed while a request is arriving.
 */
function addDraining(app: FastifyInstance, draining: AbortSignal): void {
  app.addHook('onSend', (_request, reply, payload, done) => {
    if (draining.aborted) reply.header('connection', 'close')
    done(null, payload)
  })
}
