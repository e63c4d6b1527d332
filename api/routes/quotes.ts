import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import type { Catalog } from '#shared/catalog/catalog.ts'
import type { JsonValue } from '#shared/digests/canonical-json.ts'
import { dollarsFromAtomic } from '#shared/money/atomic-amount.ts'
import type { AnyOperation } from '#shared/operations/registry.ts'
import type { PaymentTerms } from '#shared/payment/payment-terms.ts'
import type { Admission } from '../admission/admission.ts'
import type { RateLimiter } from '../plugins/rate-limits.ts'
import type { EffectiveRequest } from '../request/effective-request.ts'
import { refuseOtherThanJson } from '../request/headers.ts'
import { requireAvailable } from '../request/require-available.ts'

export const quoteSchema = z.strictObject({
  object: z.literal('quote'),
  operation: z.string(),
  /** Where to send the request to be executed. */
  path: z.string(),
  model: z.string(),
  catalog_version: z.string(),
  request_digest: z.string(),
  price: z.strictObject({ amount: z.string(), currency: z.literal('USDC'), type: z.literal('maximum') }),
  quoted_maximum_atomic: z.string(),
  /** The unit prices and bounds that the charge would follow from. */
  terms: z.record(z.string(), z.unknown()),
  payment: z.strictObject({
    x402_version: z.literal(2),
    scheme: z.literal('upto'),
    network: z.string(),
    asset: z.string(),
    pay_to: z.string(),
    max_timeout_seconds: z.int().positive(),
  }),
})

/** Reads an operation and the JSON form of its body as its endpoint would: same defaults, same measuring, same 400s. */
type ReadQuotedRequest = (
  body: unknown,
) => Promise<{ readonly operation: AnyOperation; readonly effectiveRequest: EffectiveRequest }>

interface QuoteDependencies {
  readonly catalog: Catalog
  readonly terms: PaymentTerms
  readonly readQuotedRequest: ReadQuotedRequest
  /** Pricing an upload decodes it, so quotes are limited like the paid endpoints. */
  readonly limitRate: RateLimiter
  readonly admission: Admission
}

/**
 * `POST /v1/quotes` with `{operation, request}`: the priced maximum of one request, by the operation's name and the JSON
 * body that its endpoint takes. Binds no key, promises nothing and stores nothing; the challenge of the request itself
 * counts. Errors are those of the endpoint, and name the fields of `request` as the endpoint does.
 */
export function addQuoteRoutes(app: FastifyInstance, dependencies: QuoteDependencies): void {
  app.post('/v1/quotes', {
    onRequest: async (request, reply) => {
      dependencies.limitRate(request, reply, 'openai')
      refuseOtherThanJson(request.headers)
      await dependencies.admission.admit(request, reply, { operation: null, idempotencyKey: null })
    },
    handler: async (request, reply) => {
      const lease = dependencies.admission.leaseOf(request)
      lease?.retain()
      try {
        const { operation, effectiveRequest } = await dependencies.readQuotedRequest(request.body)
        const quote = renderQuote(dependencies, operation, effectiveRequest)
        return await reply.header('cache-control', 'no-store').send(quote)
      } finally {
        lease?.release()
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
