import type { Catalog } from '#shared/catalog/catalog.ts'
import type { JsonValue } from '#shared/digests/canonical-json.ts'
import { AppError } from '#shared/errors/app-error.ts'
import type { AcceptanceStore } from '#shared/ledger/acceptance/acceptance-store.ts'
import type { CurrentBinding } from '#shared/ledger/acceptance/bind-key.ts'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { MeasuredAudio } from '#shared/operations/operation.ts'
import type { AnyOperation } from '#shared/operations/registry.ts'
import type { PaymentTerms } from '#shared/payment/payment-terms.ts'
import { raisedToGas } from '#shared/pricing/bounded-charge.ts'
import type { Quote } from '#shared/pricing/quote.ts'
import type { Tracer } from '#shared/runtime/tracing.ts'
import type { EffectiveRequest } from '../../request/effective-request.ts'
import type { Catalogs } from '../../request/live-catalog.ts'
import { requireAvailable } from '../../request/prepare-request.ts'
import type { Challenge, ChallengeSubject } from './challenge.ts'

/** A validated request under its idempotency key. */
export interface PaidRequest extends ChallengeSubject {
  readonly effectiveRequest: EffectiveRequest
}

/** What quotes are made with. */
export interface QuoteContext {
  readonly catalogs: Catalogs
  /** What settling a charge is expected to cost, where the minimum charge follows it; `null` otherwise. */
  readonly readChargeGas: (() => Promise<AtomicAmount>) | null
  readonly terms: PaymentTerms
  readonly store: AcceptanceStore
  readonly tracer: Tracer
}

/**
 * Prices the request and binds the key to it, in place of a description of its recording that does not hold. A request
 * that has no price any more keeps the live quote of its key. Throws `idempotency_key_reused` (409), and as `quoteOffered`.
 */
export async function bindQuote(context: QuoteContext, paidRequest: PaidRequest): Promise<Challenge> {
  const { catalogs, terms, store, tracer } = context
  const { idempotencyKey, requestDigest } = paidRequest
  const binding = await tracer.stage('quote', async () => {
    const priced = await priceRequest(context, paidRequest)
    if (priced.outcome === 'bound') return priced
    const { quote } = priced
    await catalogs.record(quote.catalogVersion)
    const request = {
      idempotencyKey,
      requestDigest,
      quote,
      lifetimeSeconds: terms.challengeLifetimeSeconds,
      describedAudio: descriptionOf(paidRequest),
    }
    const bound = await store.bindKey(request)
    if (bound.outcome === 'bound') return bound
    const current = await store.findBinding(idempotencyKey)
    if (!current || current.description?.isReplaced || describedDigest(current, paidRequest) === null) return bound
    await store.replaceDescription(request, current.requestDigest)
    // Another recording may have replaced the description first.
    return await store.bindKey(request)
  })
  if (binding.outcome === 'other_request') throw keyReused()
  return challengeOf(paidRequest, binding)
}

/**
 * Returns the challenge that a payment of the request must answer: what its key is bound to while that is live, whatever is
 * offered by now, else a new one.
 */
export async function challengeToPay(
  context: QuoteContext,
  paidRequest: PaidRequest,
  binding: CurrentBinding | null,
): Promise<Challenge> {
  if (!binding?.isLive) return await bindQuote(context, paidRequest)
  requireQuotedSize(paidRequest, binding.quote.terms)
  return challengeOf(paidRequest, binding)
}

/** Returns the challenge for a request whose key is bound to `quote`. */
function challengeOf(
  { operation, idempotencyKey, requestDigest }: ChallengeSubject,
  { quote, expiresAt }: Pick<Challenge, 'quote' | 'expiresAt'>,
): Challenge {
  return { operation, idempotencyKey, requestDigest, quote, expiresAt }
}

type Priced =
  | { readonly outcome: 'priced'; readonly quote: Quote<JsonValue> }
  | { readonly outcome: 'bound'; readonly quote: Quote<JsonValue>; readonly expiresAt: Date }

/**
 * Prices the request. Reports `idempotency_key_reused` in preference to a pricing error, and returns the live quote of
 * the key where the model, the voice or the length was offered when that was made.
 */
async function priceRequest(context: QuoteContext, paidRequest: PaidRequest): Promise<Priced> {
  try {
    const quote = await quoteOffered(context, paidRequest.operation, paidRequest.effectiveRequest)
    return { outcome: 'priced', quote }
  } catch (error) {
    const binding = await context.store.findBinding(paidRequest.idempotencyKey)
    requireOwnKey(binding, paidRequest)
    if (!binding?.isLive || binding.requestDigest !== paidRequest.requestDigest) throw error
    return { outcome: 'bound', quote: binding.quote, expiresAt: binding.expiresAt }
  }
}

/**
 * Prices a request whose model is offered. Where the minimum charge follows the gas (`readChargeGas`), it is at least what
 * settling it is expected to cost. Throws `model_unavailable` and `payment_network_unavailable` (503).
 */
export async function quoteOffered(
  { catalogs, readChargeGas }: QuoteContext,
  operation: AnyOperation,
  effectiveRequest: Pick<EffectiveRequest, 'publicModel' | 'quote'>,
): Promise<Quote<JsonValue>> {
  requireAvailable(catalogs.offered(), operation, effectiveRequest.publicModel)
  const quote = effectiveRequest.quote()
  return readChargeGas ? raisedToGas(quote, await readChargeGas()) : quote
}

function descriptionOf({ effectiveRequest: { recording } }: PaidRequest): MeasuredAudio | null {
  return recording && !recording.isInspected ? recording.audio : null
}

/**
 * Returns the digest that a description of this request's recording gave the request when it does not hold: the options are
 * the same, and the recording, which was inspected, is another one. Returns `null` otherwise: no description replaces
 * another.
 */
export function describedDigest(
  { requestDigest, description }: CurrentBinding,
  paidRequest: PaidRequest,
): string | null {
  const { recording } = paidRequest.effectiveRequest
  if (description === null || !recording?.isInspected) return null
  const digest = recording.digestWith(description.audio)
  const boundDigest = description.isReplaced ? paidRequest.requestDigest : digest
  return digest !== paidRequest.requestDigest && requestDigest === boundDigest ? digest : null
}

/**
 * Throws `idempotency_key_reused` (409) when the key is bound to another request, except by a description of this request's
 * recording that does not hold.
 */
export function requireOwnKey(binding: CurrentBinding | null, paidRequest: PaidRequest): void {
  if (binding && binding.requestDigest !== paidRequest.requestDigest && describedDigest(binding, paidRequest) === null)
    throw keyReused()
}

/**
 * Throws `idempotency_key_reused` (409) for a request whose text is longer than the one that the quote counted, although
 * they have one digest: numbers may be written with any number of zeros.
 */
function requireQuotedSize({ operation, effectiveRequest: { spelledSize } }: PaidRequest, terms: JsonValue): void {
  if (spelledSize === null || !operation.spelling) return
  if (spelledSize > operation.spelling.quotedSize(operation.termsSchema.parse(terms)))
    throw new AppError('idempotency_key_reused', {
      param: 'x-idempotency-key',
      message: 'Numbers of this request are written longer than in the request that was priced. Send the same text.',
    })
}

function keyReused(): AppError {
  return new AppError('idempotency_key_reused', { param: 'x-idempotency-key' })
}

/**
 * Returns the catalog of the quote that the key is bound to, if another one is offered by now: its defaults and limits
 * decide what the request is, so that the signed retry is the request that was priced. Costs a statement only where the
 * request depends on the catalog: a recording on its limits, once it is paid for, and a request with defaults always.
 * `knownQuote`: the key's quote, where it is in memory.
 */
export async function findQuotedCatalog(
  { catalogs, store }: QuoteContext,
  { upload, catalogDefaults }: AnyOperation,
  idempotencyKey: string,
  { isPaid, knownQuote }: { readonly isPaid: boolean; readonly knownQuote: Quote<unknown> | null },
): Promise<Catalog | null> {
  if (catalogDefaults === undefined && !(upload && isPaid)) return null
  const quote = knownQuote ?? (await store.findBinding(idempotencyKey))?.quote
  if (!quote || quote.catalogVersion === catalogs.offered().version) return null
  return await catalogs.find(quote.catalogVersion)
}
