import multipart from '@fastify/multipart'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { z } from 'zod'
import type { JsonValue } from '#shared/digests/canonical-json.ts'
import { dollarsFromAtomic } from '#shared/money/atomic-amount.ts'
import { type AnyOperation, uploadOperation } from '#shared/operations/registry.ts'
import type { PaymentTerms } from '#shared/payment/payment-terms.ts'
import { clientGroups } from '#shared/runtime/client-address.ts'
import type { Admission } from '../limits/admission.ts'
import type { RateLimiter } from '../limits/rate-limits.ts'
import type { Quotes } from '../paid-request/quotes.ts'
import { UNLIMITED_ARRIVAL } from '../request/body-bytes.ts'
import type { EffectiveRequest, Recording, Requests } from '../request/effective-request.ts'
import { readIdempotencyKey, refuseDuplicateHeaders } from '../request/headers.ts'
import type { Catalogs } from '../request/live-catalog.ts'
import type { quoteSchema } from '../schemas/quotes.ts'

export const QUOTES_PATH = '/v1/quotes'

export interface QuoteDependencies {
  readonly catalogs: Pick<Catalogs, 'record'>
  readonly terms: PaymentTerms
  readonly requests: Requests
  readonly quotes: Quotes
  /** Pricing an upload decodes it, and a challenge binds a key, so quotes are rate-limited like the paid endpoints. */
  readonly limitRate: RateLimiter
  readonly admission: Admission
}

/**
 * Adds `POST /v1/quotes`: takes `{operation, request}`, with the JSON body of the operation's endpoint, and returns the
 * maximum price. A transcription is also taken as a form, or with a description of its recording in place of it. Binds no
 * key and guarantees nothing, unless `challenge` is true: then the answer is the 402 of the endpoint itself, to be signed
 * there. Errors are those of the endpoint, and name the fields of `request` as the endpoint does.
 */
export async function addQuoteRoutes(app: FastifyInstance, dependencies: QuoteDependencies): Promise<void> {
  await app.register(async (scope) => {
    // In a separate scope: the multipart hooks run for every request of their scope.
    await scope.register(multipart)
    scope.post(QUOTES_PATH, {
      onRequest: async (request, reply) => {
        dependencies.limitRate(request, reply, 'openai')
        refuseDuplicateHeaders(request.raw)
        // Only JSON and forms have a parser; others are refused after this hook, with 415.
        const operation = isForm(request) ? uploadOperation : null
        await dependencies.admission.admit(request, reply, { operation, idempotencyKey: null })
      },
      handler: (request, reply) => respondTo(dependencies, request, reply),
    })
  })
}

/** Returns whether the body is announced as a form; it is not parsed yet. */
function isForm({ headers }: FastifyRequest): boolean {
  return /^\s*multipart\/form-data\b/i.test(headers['content-type'] ?? '')
}

async function respondTo(
  dependencies: QuoteDependencies,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { admission, requests, quotes } = dependencies
  const reservation = admission.reservationOf(request)
  reservation?.retain()
  try {
    const { operation, effectiveRequest, wantsChallenge } = await requests.readQuotedRequest(request, {
      client: clientGroups(request.ip),
      hasPriority: false,
      arrival: reservation ?? UNLIMITED_ARRIVAL,
    })
    if (!wantsChallenge) {
      const quote = await renderQuote(dependencies, operation, effectiveRequest)
      return await reply.header('cache-control', 'no-store').send(quote)
    }
    const idempotencyKey = readIdempotencyKey(request.headers)
    const { requestDigest, recording } = effectiveRequest
    await admission.requireCapacity(request, operation, recording?.isInspected ?? false)
    const paidRequest = { operation, idempotencyKey, requestDigest, effectiveRequest }
    const { status, headers, body, outcome } = quotes.renderChallenge(await quotes.bindQuote(paidRequest), request.id)
    request.outcome = outcome
    return await reply.status(status).headers(headers).send(body)
  } finally {
    reservation?.release()
  }
}

/** Throws as `quoteOffered`. */
export async function renderQuote(
  { catalogs, quotes, terms }: Pick<QuoteDependencies, 'catalogs' | 'quotes' | 'terms'>,
  operation: AnyOperation,
  effectiveRequest: EffectiveRequest,
): Promise<z.infer<typeof quoteSchema>> {
  const { publicModel, requestDigest, recording } = effectiveRequest
  const quote = await quotes.quoteOffered(operation, effectiveRequest)
  await catalogs.record(quote.catalogVersion)
  return {
    object: 'quote',
    operation: operation.id,
    path: operation.path,
    model: publicModel,
    catalog_version: quote.catalogVersion,
    request_digest: requestDigest,
    ...(recording ? { audio: renderRecording(recording) } : {}),
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

function renderRecording({ audio: { sha256, bytes, durationMs }, isInspected }: Recording) {
  return { sha256, bytes, duration_ms: durationMs, is_inspected: isInspected }
}
