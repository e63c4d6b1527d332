import type { z } from 'zod'
import type { Catalog, Model } from '#shared/catalog/catalog.ts'
import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { PricedQuantity } from '#shared/pricing/calculation.ts'
import type { Quote } from '#shared/pricing/quote.ts'
import type { OperationQueue } from './queues.ts'

/** The API family whose error names and rate-limit headers an endpoint uses. */
export type EndpointFamily = 'openai' | 'anthropic'

/** The measured facts of an uploaded MP3. The bytes travel separately, never inside a request or a job. */
export interface MeasuredAudio {
  readonly sha256: string
  readonly bytes: number
  readonly durationMs: number
}

/** The field names of an operation's upload in its two request forms, and its published limits. */
export interface UploadField {
  readonly jsonField: string
  readonly multipartField: string
  readonly maximumBase64Length: number
  readonly maximumBytes: number
  readonly minimumDurationMs: number
  readonly maximumDurationMs: number
  /** Options that are not strings; a form sends them as text. */
  readonly formTypes: Readonly<Record<string, 'boolean' | 'integer'>>
  /** The last sentence of an error about a field, by its name: what to send instead. */
  readonly advice: Readonly<Record<string, string>>
}

/** The result's media as the response body, for callers whose `Accept` header prefers it. JSON is the default. */
export interface MediaResponse {
  /** The content type that the OpenAPI document lists next to JSON. */
  readonly contentType: string
  /** The media types of the `Accept` header that ask for the media. */
  readonly acceptedAs: readonly string[]
  /** Reads where the media are hosted and which headers carry the other fields of the JSON result. */
  read(result: unknown): { readonly url: string; readonly headers: Readonly<Record<string, string>> }
}

/**
 * How a request of one digest may be written: what is only passed through stays as its caller wrote it, and its digest
 * knows neither the order of names nor the spelling of numbers.
 */
interface Spelling<Effective, Terms> {
  /** Returns what is digested in canonical form; `null` when nothing in the request is only passed through. */
  digested(effective: Effective): Effective | null
  /** Returns the size that the price of this text counts. */
  size(effective: Effective): number
  /** Returns the size that a quote counted. */
  quotedSize(terms: Terms): number
}

/**
 * One paid operation in one place: its request, its result, its usage, and the money that follows from them.
 *
 * - `Body`: the validated public fields with defaults applied, without the upload.
 * - `Effective`: what is executed and digested; plain JSON in wire form so that it can be stored.
 * - `Terms`: the unit prices and bounds that a quote froze, as JSON.
 * - `Usage`: measured quantities with units, never money.
 */
export interface Operation<
  Id extends string,
  Body,
  Effective extends JsonValue,
  Terms extends JsonValue,
  Usage extends JsonValue,
  Result,
> {
  /** The operationId of the OpenAPI document; stored with each job. */
  readonly id: Id
  readonly path: string
  /** The name of the wire format in `GET /v1/models`. */
  readonly compatibility: string
  readonly summary: string
  readonly description: string
  /** A JSON request that `bodySchema` accepts, together with the upload. */
  readonly requestExample: Readonly<Record<string, JsonValue>>
  readonly resultExample: Result
  readonly family: EndpointFamily
  readonly category: Model['category']
  readonly queue: OperationQueue
  /** `null` for the API's general limit. */
  readonly bodyLimitBytes: number | null
  /** `null` when requests are JSON only. */
  readonly upload: UploadField | null
  /** Whether the result links to media, which the object store must take. */
  readonly hostsMedia: boolean
  /** `null` when the result is always JSON. */
  readonly mediaResponse: MediaResponse | null
  readonly bodySchema: z.ZodType<Body>
  /** Returns the defaults of fields that the catalog decides; the interface description states them. */
  readonly catalogDefaults?: (catalog: Catalog) => Readonly<Record<string, JsonValue>>
  readonly effectiveRequestSchema: z.ZodType<Effective>
  readonly termsSchema: z.ZodType<Terms>
  readonly usageSchema: z.ZodType<Usage>
  readonly resultSchema: z.ZodType<Result>
  /** Absent where requests of one digest have one text. */
  readonly spelling?: Spelling<NoInfer<Effective>, NoInfer<Terms>>
  /**
   * Builds the effective request, with the catalog's defaults; `audio` is `null` without an upload. Throws `AppError`
   * with status 400.
   */
  effectiveRequest(body: Body, audio: MeasuredAudio | null, catalog: Catalog): Effective
  publicModel(effective: Effective): string
  /**
   * Computes the proven maximum. Throws `AppError` with status 400 when the maximum would exceed the published bound,
   * or when a value passes a limit that the model publishes (`max_tokens`).
   */
  quote(effective: Effective, catalog: Catalog): Quote<Terms>
  /** Returns the quantities that the charge sums up, before rounding, minimum and maximum. The receipt shows them. */
  pricedQuantities(usage: Usage, terms: Terms): readonly PricedQuantity[]
  /**
   * Computes the charge, which never exceeds the maximum of the quote that froze these terms; the caller still checks
   * it against the authorization.
   */
  charge(usage: Usage, terms: Terms): AtomicAmount
}

/** Returns the operation unchanged, with types inferred from its schemas and its id kept as a literal type. */
export function defineOperation<
  const Id extends string,
  Body,
  Effective extends JsonValue,
  Terms extends JsonValue,
  Usage extends JsonValue,
  Result,
>(
  operation: Operation<Id, Body, Effective, Terms, Usage, Result>,
): Operation<Id, Body, Effective, Terms, Usage, Result> {
  return operation
}

/** The `created` of every result example; fixed, so that the OpenAPI document is the same at every start. */
export const EXAMPLE_CREATED = 1_767_225_600
