import type { FastifyRequest } from 'fastify'
import type { Catalog } from '#shared/catalog/catalog.ts'
import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { AnyOperation } from '#shared/operations/registry.ts'
import type { Quote } from '#shared/pricing/quote.ts'
import type { DecoderCaller } from './audio/decoder-queue.ts'
import type { Mp3Inspector } from './audio/inspect-mp3.ts'
import { type BodyArrival, UNLIMITED_ARRIVAL } from './body-bytes.ts'
import { finishRequest, type Prepared, type PreparedRequest } from './prepare-request.ts'
import { readMultipartRequest } from './upload.ts'
import type { RequestPreparer } from './worker-threads/request-preparer.ts'

interface Dependencies {
  readonly catalog: Catalog
  readonly preparer: Pick<RequestPreparer, 'prepareRequest' | 'prepareQuote' | 'measureAudio'>
  readonly mp3Inspector: Mp3Inspector
}

/** The request that is executed, with the digest that identifies it and its upload, if any. */
export interface EffectiveRequest {
  readonly publicModel: string
  /** SHA-256 over the canonical JSON; independent of payment headers, spelling, whitespace and order. */
  readonly requestDigest: string
  /** Prices the request. Throws the 400s of `Operation.quote`; must be called for available models only. */
  readonly quote: () => Quote<JsonValue>
  /** Returns the parts that may be large. Throws after `releaseContent`. */
  readonly content: () => EffectiveContent
  /** Frees the content: the connection may stay open for minutes after its last use. */
  readonly releaseContent: () => void
}

interface EffectiveContent {
  /** Canonical JSON in UTF-8, as digested and stored. */
  readonly json: Uint8Array
  readonly audio: Uint8Array | null
}

interface ReadOptions extends DecoderCaller {
  /** Follows the arrival of a form. */
  readonly arrival?: BodyArrival
}

/**
 * Validates the request, applies defaults and measures the upload. Throws every 400 of the endpoint, before any
 * provider or payment is involved.
 */
export async function readEffectiveRequest(
  dependencies: Dependencies,
  operation: AnyOperation,
  request: FastifyRequest,
  options: ReadOptions,
): Promise<EffectiveRequest> {
  const prepared = await prepare(dependencies, operation, request, options.arrival)
  return await finish(dependencies, operation, prepared, options)
}

/** Does the same for the request inside the body of `POST /v1/quotes`, parsed or unparsed. */
export async function readQuotedRequest(
  dependencies: Dependencies,
  body: unknown,
  caller: DecoderCaller,
): Promise<{ operation: AnyOperation; effectiveRequest: EffectiveRequest }> {
  const { operation, prepared } = await dependencies.preparer.prepareQuote(body)
  const effectiveRequest = await finish(dependencies, operation, prepared, caller)
  return { operation, effectiveRequest }
}

async function prepare(
  { preparer, catalog }: Dependencies,
  operation: AnyOperation,
  request: FastifyRequest,
  arrival: BodyArrival = UNLIMITED_ARRIVAL,
): Promise<Prepared> {
  const { upload, bodySchema } = operation
  const field = upload && { ...upload, maximumBytes: uploadLimit(upload.maximumBytes, catalog) }
  if (!field || !request.isMultipart()) return await preparer.prepareRequest(operation, request.body)
  const { body, audio, uploadParam } = await readMultipartRequest(request, field, bodySchema, arrival)
  return { kind: 'upload', body, upload: await preparer.measureAudio(audio), uploadParam }
}

/** Returns the size at which a form's file is cut off: the catalog's limit may be lower than the operation's. */
function uploadLimit(maximumBytes: number, { models }: Catalog): number {
  const limits = models.flatMap((model) => (model.category === 'speech_to_text' ? [model.maximumAudioBytes] : []))
  return Math.min(maximumBytes, ...limits)
}

async function finish(
  dependencies: Dependencies,
  operation: AnyOperation,
  prepared: Prepared,
  caller: DecoderCaller,
): Promise<EffectiveRequest> {
  if (prepared.kind === 'request') return withContent(prepared, null)
  const { body, upload, uploadParam } = prepared
  const { audio, sha256 } = upload
  const { durationMs } = await dependencies.mp3Inspector.inspect(upload, { ...caller, param: uploadParam })
  const measured = { sha256, bytes: audio.length, durationMs }
  const effective = operation.effectiveRequest(body, measured, dependencies.catalog)
  return withContent(finishRequest(operation, effective, dependencies.catalog), audio)
}

function withContent(
  { publicModel, requestDigest, json, quote }: PreparedRequest,
  audio: Uint8Array | null,
): EffectiveRequest {
  let content: EffectiveContent | null = { json, audio }
  return {
    publicModel,
    requestDigest,
    quote,
    content: () => {
      if (!content) throw new Error('the content of this request was released')
      return content
    },
    releaseContent: () => {
      content = null
    },
  }
}
