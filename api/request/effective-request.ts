import type { FastifyRequest } from 'fastify'
import type { z } from 'zod'
import type { AudioLimits } from '#shared/audio/conversion.ts'
import type { Catalog } from '#shared/catalog/catalog.ts'
import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { MeasuredAudio, UploadField } from '#shared/operations/operation.ts'
import { type AnyOperation, uploadOperation } from '#shared/operations/registry.ts'
import type { Quote } from '#shared/pricing/quote.ts'
import { bindTo } from '#shared/runtime/bind-to.ts'
import type { DecoderCaller } from './audio/decoder-queue.ts'
import type { Mp3Inspector } from './audio/inspect-mp3.ts'
import { type BodyArrival, UNLIMITED_ARRIVAL } from './body-bytes.ts'
import { type Call, isForm } from './call.ts'
import type { Catalogs } from './live-catalog.ts'
import { readMultipartRequest } from './multipart.ts'
import { finishRequest, type Prepared, type PreparedRequest, type PreparedUpload } from './prepare-request.ts'
import { quoteFormSchema } from './quote-request.ts'
import type { RequestPreparer } from './worker-threads/request-preparer.ts'

/** What requests are read with. */
export interface RequestContext {
  readonly catalogs: Catalogs
  readonly preparer: RequestPreparer
  readonly mp3Inspector: Mp3Inspector
}

/** Reads what callers ask for. */
export type Requests = ReturnType<typeof createRequests>

export function createRequests(context: RequestContext) {
  return bindTo(context, { readEffectiveRequest, readQuotedRequest })
}

/** The request that is executed, with the digest that identifies it and its upload, if any. */
export interface EffectiveRequest {
  readonly publicModel: string
  /** SHA-256 over the canonical JSON; independent of payment headers, spelling, whitespace and order. */
  readonly requestDigest: string
  /** The size that the price of this text counts; `null` for the one text that requests of this digest can have. */
  readonly spelledSize: number | null
  /** Prices the request. Throws the 400s of `Operation.quote`; must be called for available models only. */
  readonly quote: () => Quote<JsonValue>
  /** The recording of a transcription; `null` for any other request. */
  readonly recording: Recording | null
  /** Returns the parts that may be large. Throws after `releaseContent`, and for a recording that was only described. */
  readonly content: () => EffectiveContent
  /**
   * Frees the content: the connection may stay open for minutes after its last use. From then on the price is that of this
   * moment.
   */
  readonly releaseContent: () => void
}

/** What is known about the recording of a request. */
export interface Recording {
  readonly audio: MeasuredAudio
  /** Whether the recording was sent, hashed, walked and decoded; otherwise its caller says what it is. */
  readonly isInspected: boolean
  /** Returns the digest of the same options with another recording. */
  readonly digestWith: (audio: MeasuredAudio) => string
}

interface EffectiveContent {
  /** JSON in UTF-8, as stored and executed. */
  readonly json: Uint8Array
  readonly audio: Uint8Array | null
}

export interface ReadOptions extends DecoderCaller {
  /** The catalog of the quote that the request's key is bound to; by default what is offered now. */
  readonly quotedCatalog?: Catalog | null
  /** Follows the arrival of a form. */
  readonly arrival?: BodyArrival
}

/**
 * Validates the request, applies defaults and measures the upload. Throws every 400 of the endpoint, before any
 * provider or payment is involved.
 */
async function readEffectiveRequest(
  context: RequestContext,
  operation: AnyOperation,
  request: Call,
  options: ReadOptions,
): Promise<EffectiveRequest> {
  const prepared = await prepare(context, operation, request, options)
  return await finish(context, operation, prepared, options)
}

/** A request to be priced, and whether the answer is the challenge to sign instead of a quote. */
export interface QuotedRequest {
  readonly operation: AnyOperation
  readonly effectiveRequest: EffectiveRequest
  readonly wantsChallenge: boolean
}

/**
 * Does the same for the request inside the body of `POST /v1/quotes`, JSON or a form. A transcription there may describe
 * its recording instead of containing it: then nothing is decoded, and the description is not proven.
 */
async function readQuotedRequest(context: RequestContext, request: Call, options: ReadOptions): Promise<QuotedRequest> {
  const { operation, prepared, wantsChallenge } = isForm(request)
    ? await prepareQuoteForm(context, request, options)
    : await context.preparer.prepareQuote(request.body)
  const effectiveRequest = await finish(context, operation, prepared, options)
  return { operation, effectiveRequest, wantsChallenge }
}

async function prepareQuoteForm(context: RequestContext, request: FastifyRequest, options: ReadOptions) {
  const operation = uploadOperation
  const { body: form, ...upload } = await readForm(context, request, {
    upload: { ...operation.upload, formTypes: { ...operation.upload.formTypes, challenge: 'boolean' } },
    bodySchema: quoteFormSchema(operation),
    options,
  })
  return { operation, prepared: { ...upload, body: form.body }, wantsChallenge: form.wantsChallenge }
}

async function prepare(
  context: RequestContext,
  operation: AnyOperation,
  request: Call,
  options: ReadOptions,
): Promise<Prepared> {
  const { upload, bodySchema } = operation
  const read = options.quotedCatalog ?? context.catalogs.offered()
  if (!upload || !isForm(request)) return await context.preparer.prepareRequest(operation, request.body, read)
  return await readForm(context, request, { upload, bodySchema, options })
}

interface Form<Body> {
  readonly upload: UploadField
  readonly bodySchema: z.ZodType<Body>
  readonly options: ReadOptions
}

/** Reads a form with an upload, and measures the upload. */
async function readForm<Body>(
  { preparer, catalogs }: RequestContext,
  request: FastifyRequest,
  { upload, bodySchema, options: { arrival = UNLIMITED_ARRIVAL, quotedCatalog } }: Form<Body>,
): Promise<PreparedUpload & { readonly body: Body }> {
  preparer.expectBody(request.headers)
  const field = { ...upload, ...uploadLimits(upload, quotedCatalog ?? catalogs.published()) }
  const { body, audio, uploadParam } = await readMultipartRequest(request, field, bodySchema, arrival)
  return { kind: 'upload', body, upload: await preparer.measureAudio(audio), uploadParam }
}

/**
 * Returns the limits of a recording, where a form's file is cut off: the catalog's may be lower than the operation's. A
 * catalog of before there was a least length, with which an earlier quote was made, has none.
 */
function uploadLimits({ maximumBytes, maximumDurationMs }: AudioLimits, { models }: Catalog): AudioLimits {
  const offered = models.filter((model) => model.category === 'speech_to_text')
  return {
    minimumDurationMs: Math.max(0, ...offered.map((model) => model.minimumAudioDurationMs ?? 0)),
    maximumBytes: Math.min(maximumBytes, ...offered.map((model) => model.maximumAudioBytes)),
    maximumDurationMs: Math.min(maximumDurationMs, ...offered.map((model) => model.maximumAudioDurationMs)),
  }
}

async function finish(
  context: RequestContext,
  operation: AnyOperation,
  prepared: Prepared,
  { quotedCatalog, client, hasPriority }: ReadOptions,
): Promise<EffectiveRequest> {
  const { mp3Inspector, catalogs } = context
  if (prepared.kind === 'request') return withContent(prepared, null, null)
  // Not `prepared`: what a closure refers to outlives the release of the content.
  const { body } = prepared
  const read = quotedCatalog ?? catalogs.offered()
  const limits = uploadLimits(operation.upload ?? uploadOperation.upload, quotedCatalog ?? catalogs.published())
  const finishWith = (audio: MeasuredAudio) =>
    finishRequest(operation, operation.effectiveRequest(body, audio, read), catalogs.offered)
  const digestWith = (audio: MeasuredAudio) => finishWith(audio).requestDigest
  if (prepared.kind === 'description') {
    const { audio } = prepared
    mp3Inspector.requireWithinLimits(audio, limits)
    return withContent(finishWith(audio), { audio, isInspected: false, digestWith }, null)
  }
  const { upload, uploadParam } = prepared
  const { durationMs } = await mp3Inspector.inspect(upload, { client, hasPriority, param: uploadParam, limits })
  const audio = { sha256: upload.sha256, bytes: upload.audio.length, durationMs }
  return withContent(finishWith(audio), { audio, isInspected: true, digestWith }, upload.audio)
}

function withContent(
  { publicModel, requestDigest, spelledSize, json, quote }: PreparedRequest,
  recording: Recording | null,
  audio: Uint8Array | null,
): EffectiveRequest {
  // Without its recording a request must never be executed.
  let content: EffectiveContent | null = recording && !recording.isInspected ? null : { json, audio }
  // Not `quote`, whose closure refers to the text of the request.
  let price = quote
  return {
    publicModel,
    requestDigest,
    spelledSize,
    quote: () => price(),
    recording,
    content: () => {
      if (!content) throw new Error('the content of this request was released, or never sent')
      return content
    },
    releaseContent: () => {
      if (content === null) return
      content = null
      price = settled(price)
    },
  }
}

/** Calls a function now, and returns one that only returns or throws the same. */
function settled<Value>(call: () => Value): () => Value {
  try {
    const value = call()
    return () => value
  } catch (error) {
    return () => {
      throw error
    }
  }
}
