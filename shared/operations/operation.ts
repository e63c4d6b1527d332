import type { z } from 'zod'
import type { Catalog } from '#shared/catalog/catalog.ts'
import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
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
 * - `Options`: the validated public fields with defaults applied, the upload left out.
 * - `Effective`: what is really executed and digested; wire-shaped plain JSON so that it can be stored.
 * - `Terms`: the unit prices and bounds that a quote froze, as JSON.
 * - `Usage`: measured quantities with units, never money.
 */
export interface Operation<
  Options,
  Effective extends JsonValue,
  Terms extends JsonValue,
  Usage extends JsonValue,
  Result,
> {
  readonly id: string
  readonly path: string
  readonly summary: string
  readonly family: EndpointFamily
  readonly upload: UploadField
  readonly optionsSchema: z.ZodType<Options>
  readonly effectiveRequestSchema: z.ZodType<Effective>
  readonly termsSchema: z.ZodType<Terms>
  readonly usageSchema: z.ZodType<Usage>
  readonly resultSchema: z.ZodType<Result>
  effectiveRequest(options: Options, audio: MeasuredAudio): Effective
  publicModel(effective: Effective): string
  quote(effective: Effective, catalog: Catalog): Quote<Terms>
  /** Never above the quote's maximum. */
  charge(usage: Usage, terms: Terms): AtomicAmount
}
