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
import { jsonRequestSchema, resultSchemaOf } from '../../schemas/operation-schemas.ts'
import { renderPaymentRequired } from './payment-required.ts'

/** Shows every field and its type. The whole schemas, which are in /openapi.json, would overflow the header. */
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
const MAXIMUM_PROBE_BYTES = 64

/**
 * Returns whether a request may be a probe, judged before its body is read: any other request without a key is rejected
 * unread. Chunked bodies never are probes, since they do not announce their length.
 */
export function mayBeProbe(headers: IncomingHttpHeaders): boolean {
  if (headers['x-idempotency-key'] !== undefined || headers['payment-signature'] !== undefined) return false
  return headers['transfer-encoding'] === undefined && Number(headers['content-length'] ?? 0) <= MAXIMUM_PROBE_BYTES
}

/**
 * Returns whether an unpaid request is a listing service's probe: no idempotency key, and no body or `{}`. `body` is
 * the parsed one, `undefined` when none was sent.
 */
export function isProbe(headers: IncomingHttpHeaders, body: unknown): boolean {
  if (!mayBeProbe(headers)) return false
  if (body === undefined) return true
  return typeof body === 'object' && body !== null && !Array.isArray(body) && Object.keys(body).length === 0
}

/**
 * Renders the generic 402 for a probe: the route's published maximum and, in the `bazaar` extension, the request and
 * the result in outline. It binds no key and contains no challenge token, so a payment signed for it is never accepted.
 * Throws `model_unavailable` when no model of the operation's category is available.
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
    extensions: bazaarExtension(operation, catalog),
    requestId,
  })
}

/** Describes an operation for listing services: schemas in outline, each with a valid example. */
function bazaarExtension(operation: AnyOperation, catalog: Catalog): Record<string, unknown> {
  const { requestExample, resultExample } = operation
  const declared = declareDiscoveryExtension({
    bodyType: 'json',
    input: requestExample,
    inputSchema: outlineSchema(jsonRequestSchema(operation, catalog), REQUEST_DEPTH),
    output: { example: resultExample, schema: outlineSchema(resultSchemaOf(operation), RESULT_DEPTH) },
  })
  return withMethod(declared)
}

/** Adds the method, which the package leaves to its own server middleware; every paid operation is a POST. */
function withMethod(declared: Record<string, unknown>): Record<string, unknown> {
  const bazaar = declared['bazaar'] as { info: { input: Record<string, unknown> } }
  const info = { ...bazaar.info, input: { ...bazaar.info.input, method: 'POST' } }
  return { ...declared, bazaar: { ...bazaar, info } }
}
