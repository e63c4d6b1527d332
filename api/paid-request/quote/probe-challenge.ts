import type { IncomingHttpHeaders } from 'node:http'
import { priceBounds } from '#shared/catalog/price-bounds.ts'
import { AppError } from '#shared/errors/app-error.ts'
import { atomicFromDollars } from '#shared/money/atomic-amount.ts'
import type { AnyOperation } from '#shared/operations/registry.ts'
import { isObject } from '#shared/operations/text/tool-arguments.ts'
import type { QuoteContext } from './bind-quote.ts'
import { type ChallengeContext, renderPaymentRequired } from './challenge.ts'

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
  return isObject(body) && Object.keys(body).length === 0
}

/**
 * Renders the generic 402 for a probe, with the route's published maximum. It binds no key and contains no challenge
 * token, so a payment signed for it is never accepted; therefore it has no offer either.
 * Throws `model_unavailable` when no model of the operation's category is available.
 */
export function renderProbeChallenge(
  { catalogs, terms, listings }: Pick<ChallengeContext, 'terms' | 'listings'> & Pick<QuoteContext, 'catalogs'>,
  operation: AnyOperation,
  requestId: string,
) {
  const bounds = priceBounds(catalogs.offered(), operation.category)
  if (!bounds) throw new AppError('model_unavailable')
  const { maximumChargeUsd } = bounds
  const listing = listings[operation.id]
  return renderPaymentRequired({
    terms,
    listing,
    extensions: listing.probeExtensions(),
    offer: null,
    maximum: atomicFromDollars(maximumChargeUsd),
    message: `A call costs at most ${maximumChargeUsd} USDC. Send a request with the header x-idempotency-key to get its own price.`,
    extra: { facilitatorAddress: terms.facilitators[0] },
    requestId,
  })
}
