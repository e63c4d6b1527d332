import type { FastifyInstance } from 'fastify'
import type { z } from 'zod'
import type { Catalog } from '#shared/catalog/catalog.ts'
import type { JsonValue } from '#shared/digests/canonical-json.ts'
import { dollarsFromAtomic } from '#shared/money/atomic-amount.ts'
import type { AnyOperation } from '#shared/operations/registry.ts'
import type { PaymentTerms } from '#shared/payment/payment-terms.ts'
import type { Admission } from '../admission/admission.ts'
import type { RateLimiter } from '../plugins/rate-limits.ts'
import type { DecoderCaller } from '../request/audio/decoder-queue.ts'
import { clientGroups } from '../request/client-address.ts'
import type { EffectiveRequest } from '../request/effective-request.ts'
import { requireJson } from '../request/headers.ts'
import { requireAvailable } from '../request/require-available.ts'
import type { quoteSchema } from '../schemas/quotes.ts'

/** Reads an operation and its JSON body as its endpoint does, with the same defaults, measurements and 400s. */
type ReadQuotedRequest = (
  body: unknown,
  caller: DecoderCaller,
) => Promise<{ readonly operation: AnyOperation; readonly effectiveRequest: EffectiveRequest }>

interface QuoteDependencies {
  readonly catalog: Catalog
  readonly terms: PaymentTerms
  readonly readQuotedRequest: ReadQuotedRequest
  /** Pricing an upload decodes it, so quotes are rate-limited like the paid endpoints. */
  readonly limitRate: RateLimiter
  readonly admission: Admission
}

/**
 * Adds `POST /v1/quotes`: takes `{operation, request}`, with the JSON body of the operation's endpoint, and returns the
 * maximum price. Binds no key, stores nothing and guarantees nothing; only the challenge of the request itself is
 * binding. Errors are those of the endpoint, and name the fields of `request` as the endpoint does.
 */
export function addQuoteRoutes(app: FastifyInstance, dependencies: QuoteDependencies): void {
  app.post('/v1/quotes', {
    onRequest: async (request, reply) => {
      dependencies.limitRate(request, reply, 'openai')
      requireJson(request.headers)
      await dependencies.admission.admit(request, reply, { operation: null, idempotencyKey: null })
    },
    handler: async (request, reply) => {
      const reservation = dependencies.admission.reservationOf(request)
      reservation?.retain()
      try {
        const caller = { client: clientGroups(request.ip), hasPriority: false }
        const { operation, effectiveRequest } = await dependencies.readQuotedRequest(request.body, caller)
        const quote = renderQuote(dependencies, operation, effectiveRequest)
        return await reply.header('cache-control', 'no-store').send(quote)
      } finally {
        reservation?.release()
      }
    },
  })
}

function renderQuote(
  { catalog, terms }: QuoteDependencies,
  operation: AnyOperation,
  { publicModel, requestDigest, ...effectiveRequest }: EffectiveRequest,
): z.infer<typeof quoteSchema> {
  requireAvailable(catalog, operation, publicModel)
  const quote = effectiveRequest.quote()
  return {
    object: 'quote',
    operation: operation.id,
    path: operation.path,
    model: publicModel,
    catalog_version: quote.catalogVersion,
    request_digest: requestDigest,
    price: { amount: dollarsFromAtomic(quote.quotedMaximum), currency: 'USDC', type: 'maximum' },
    quoted_maximum_atomic: quote.quotedMaximum.toString(),
    terms: quote.terms as Record<string, JsonValue>,
    payment: {
      x402_version: 2,
      scheme: 'upto',
      network: terms.network,
      asset: terms.asset,
      pay_to: terms.payTo,
      max_timeout_seconds: terms.maxTimeoutSeconds,
    },
  }
}
