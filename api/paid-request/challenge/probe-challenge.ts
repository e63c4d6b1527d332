import type { IncomingHttpHeaders } from 'node:http'
import { declareDiscoveryExtension } from '@x402/extensions'
import type { Catalog } from '#shared/catalog/catalog.ts'
import { priceBounds } from '#shared/catalog/price-bounds.ts'
import { AppError } from '#shared/errors/app-error.ts'
import { atomicFromDollars } from '#shared/money/atomic-amount.ts'
import type { AnyOperation } from '#shared/operations/registry.ts'
import type { PaymentTerms } from '#shared/payment/payment-terms.ts'
import type { StatementSigner } from '#shared/payment/statement-signer.ts'
import { outlineSchema } from '../../schemas/json-schema.ts'
import { notesOf } from '../../schemas/operation-examples.ts'
import { jsonRequestSchema, resultSchemaOf } from '../../schemas/operation-schemas.ts'
import { renderPaymentRequired } from './payment-required.ts'

/** Deep enough to show every field and its type; the whole schemas are in /openapi.json and would overflow the header. */
const REQUEST_DEPTH = 3
const RESULT_DEPTH = 1

interface ProbeDependencies {
  readonly catalog: Catalog
  readonly terms: PaymentTerms
  readonly publicBaseUrl: string
  readonly signer: StatementSigner
  readonly now: () => Date
}

/** More than any spelling of an empty object that a listing service sends. */
const LONGEST_PROBE_BYTES = 64

/**
 * Whether a request may turn out to be a probe, told before its body is read: anything else without a key is not worth
 * reading. Chunked bodies are not, since they do not tell their length.
 */
export function mayBeProbe(headers: IncomingHttpHeaders): boolean {
  if (headers['x-idempotency-key'] !== undefined || headers['payment-signature'] !== undefined) return false
  return headers['transfer-encoding'] === undefined && Number(headers['content-length'] ?? 0) <= LONGEST_PROBE_BYTES
}

/**
 * Whether an unpaid request is a listing service's probe: no idempotency key, and no body or `{}`. `body` is the parsed one,
 * `undefined` when none was sent (payments page, Idempotency and replay).
 */
export function isProbe(headers: IncomingHttpHeaders, body: unknown): boolean {
  if (!mayBeProbe(headers)) return false
  if (body === undefined) return true
  return typeof body === 'object' && body !== null && !Array.isArray(body) && Object.keys(body).length === 0
}

/**
 * The generic 402 that a probe gets: the route's published maximum and, in the `bazaar` extension, what to send and what
 * comes back. It binds no key and holds no token, so nothing that is signed for it can pay. Throws `model_unavailable`
 * when no model of the operation's category is available.
 */
export function renderProbeChallenge(
  { catalog, terms, publicBaseUrl, signer, now }: ProbeDependencies,
  operation: AnyOperation,
  requestId: string,
) {
  const bounds = priceBounds(catalog, operation.category)
  if (!bounds) throw new AppError('model_unavailable')
  const { maximumChargeUsd } = bounds
  return renderPaymentRequired({
    terms,
    publicBaseUrl,
    signer,
    operation,
    maximum: atomicFromDollars(maximumChargeUsd),
    validUntil: new Date(now().getTime() + terms.challengeLifetimeSeconds * 1000),
    message: `A call costs at most ${maximumChargeUsd} USDC. Send a request with the header x-idempotency-key to get its own price.`,
    extra: { facilitatorAddress: terms.facilitators[0] },
    extensions: bazaarExtension(operation),
    requestId,
  })
}

/** What listing services index of an operation: schemas in outline, with an example of each that is valid against them. */
function bazaarExtension(operation: AnyOperation): Record<string, unknown> {
  const { requestExample, resultExample } = notesOf(operation.id, operation.summary)
  const declared = declareDiscoveryExtension({
    bodyType: 'json',
    input: requestExample,
    inputSchema: outlineSchema(jsonRequestSchema(operation), REQUEST_DEPTH),
    output: { example: resultExample, schema: outlineSchema(resultSchemaOf(operation), RESULT_DEPTH) },
  })
  return withMethod(declared)
}

/** The declaration leaves the method to the package's own server middleware; every paid operation is a POST. */
function withMethod(declared: Record<string, unknown>): Record<string, unknown> {
  const bazaar = declared['bazaar'] as { info: { input: Record<string, unknown> } }
  const info = { ...bazaar.info, input: { ...bazaar.info.input, method: 'POST' } }
  return { ...declared, bazaar: { ...bazaar, info } }
}
