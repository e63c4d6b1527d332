import type { z } from 'zod'
import type { Catalog, Model } from '#shared/catalog/catalog.ts'
import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { PricedQuantity } from '#shared/pricing/calculation.ts'
import type { Quote } from '#shared/pricing/quote.ts'

/** Whose error names and rate-limit headers an endpoint answers with (see the compatibility page). */
export type EndpointFamily = 'openai' | 'anthropic'

/** What inspection measured of an uploaded MP3; the bytes themselves travel beside it, never inside a request or a job. */
export interface MeasuredAudio {
  readonly sha256: string
  readonly bytes: number
  readonly durationMs: number
}

/** Where an operation's upload stands in its two request forms, and its published limits. */
export interface UploadField {
  readonly jsonField: string
  readonly multipartField: string
  readonly maximumBase64Length: number
  readonly maximumBytes: number
  /** Options that are not text; a form sends them as text. */
  readonly formTypes: Readonly<Record<string, 'boolean' | 'integer'>>
}

/**
 * One paid operation in one place: its request, its result, its usage, and the money that follows from them.
 *
 * - `Body`: the validated public fields with defaults applied; an upload is left out of it.
 * - `Effective`: what is really executed and digested; wire-shaped plain JSON so that it can be stored.
 * - `Terms`: the unit prices and bounds that a quote froze, as JSON.
 * - `Usage`: measured quantities with units, never money.
 */
export interface Operation<
  Body,
  Effective extends JsonValue,
  Terms extends JsonValue,
  Usage extends JsonValue,
  Result,
> {
  /** The operationId of the interface description. */
  readonly id: string
  readonly path: string
  readonly summary: string
  readonly family: EndpointFamily
  readonly category: Model['category']
  /** `null` when requests are JSON only. */
  readonly upload: UploadField | null
  readonly bodySchema: z.ZodType<Body>
  readonly effectiveRequestSchema: z.ZodType<Effective>
  readonly termsSchema: z.ZodType<Terms>
  readonly usageSchema: z.ZodType<Usage>
  readonly resultSchema: z.ZodType<Result>
  /** `audio` is what was measured of the upload, for operations that have one. Throws `AppError` of status 400. */
  effectiveRequest(body: Body, audio: MeasuredAudio | null): Effective
  publicModel(effective: Effective): string
  /**
   * The proven maximum. Throws `AppError` of status 400 when the maximum would exceed the published bound, saying by how
   * much, or when a value passes a limit that the model publishes (`max_tokens`).
   */
  quote(effective: Effective, catalog: Catalog): Quote<Terms>
  /** What the charge is the sum of, before rounding, minimum and maximum: the receipt shows these. */
  pricedQuantities(usage: Usage, terms: Terms): readonly PricedQuantity[]
  /** Never above the maximum of the quote whose terms these are; the caller still holds it against the authorization. */
  charge(usage: Usage, terms: Terms): AtomicAmount
}
