import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import type { Catalog } from '#shared/catalog/catalog.ts'
import type { JsonValue } from '#shared/digests/canonical-json.ts'
import { AppError } from '#shared/errors/app-error.ts'
import { dollarsFromAtomic } from '#shared/money/atomic-amount.ts'
import type { AnyOperation } from '#shared/operations/registry.ts'
import type { PaymentTerms } from '#shared/payment/payment-terms.ts'
import { invalidField } from '../paid-request/invalid-field.ts'
import { refuseOtherThanJson } from '../paid-request/read-headers.ts'
import { requireAvailable } from '../paid-request/require-available.ts'
import type { RateLimiter } from '../plugins/rate-limits.ts'

/** Anything else is refused: a field beside these would look priced and be ignored. */
const quoteRequestSchema = z.strictObject({ operation: z.string(), request: z.unknown() })

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

/** Reads the JSON form of an operation's body as its endpoint would: same defaults, same measuring, same 400s. */
type ReadEffectiveBody = (
  operation: AnyOperation,
  body: unknown,
) => Promise<{ readonly effective: JsonValue; readonly requestDigest: string }>

interface QuoteDependencies {
  readonly operations: readonly AnyOperation[]
  readonly catalog: Catalog
  readonly terms: PaymentTerms
  readonly readEffectiveBody: ReadEffectiveBody
  /** Pricing an upload decodes it, so quotes are limited like the paid endpoints. */
  readonly limitRate: RateLimiter
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
    },
    handler: async (request, reply) => {
      const { operation, body } = readQuoteRequest(request.body, dependencies.operations)
      const { effective, requestDigest } = await dependencies.readEffectiveBody(operation, body)
      const quote = renderQuote(dependencies, operation, effective, requestDigest)
      return reply.header('cache-control', 'no-store').send(quote)
    },
  })
}

function readQuoteRequest(
  given: unknown,
  operations: readonly AnyOperation[],
): { operation: AnyOperation; body: unknown } {
  const parsed = quoteRequestSchema.safeParse(given)
  if (!parsed.success) throw invalidField(parsed.error, given)
  const operation = operations.find(({ id }) => id === parsed.data.operation)
  if (operation && parsed.data.request !== undefined) return { operation, body: parsed.data.request }
  if (operation) throw new AppError('missing_field', { param: 'request', message: 'request is required.' })
  const names = operations.map(({ id }) => id).join(', ')
  throw new AppError('invalid_field', { param: 'operation', message: `operation must be one of ${names}.` })
}

function renderQuote(
  { catalog, terms }: QuoteDependencies,
  operation: AnyOperation,
  effective: JsonValue,
  requestDigest: string,
): z.infer<typeof quoteSchema> {
  requireAvailable(catalog, operation, effective)
  const quote = operation.quote(effective, catalog)
  return {
    object: 'quote',
    operation: operation.id,
    path: operation.path,
    model: operation.publicModel(effective),
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
