import { type Catalog, findModel, withoutRetiredVoices } from '#shared/catalog/catalog.ts'
import { canonicalJson, type JsonValue, sha256Hex, storedJson } from '#shared/digests/canonical-json.ts'
import { AppError } from '#shared/errors/app-error.ts'
import type { MeasuredAudio } from '#shared/operations/operation.ts'
import type { AnyOperation } from '#shared/operations/registry.ts'
import type { Quote } from '#shared/pricing/quote.ts'
import { readJsonRequest } from './json-body.ts'
import { readJsonUpload, type UploadRequest } from './json-upload.ts'
import type { CurrentCatalog } from './live-catalog.ts'
import { type MeasuredUpload, measureAudio } from './measure-audio.ts'

/** A request that was read completely, ready to be priced and executed. */
export interface PreparedRequest {
  readonly kind: 'request'
  readonly publicModel: string
  /** SHA-256 over the canonical JSON; independent of payment headers, spelling, whitespace and order. */
  readonly requestDigest: string
  /** The effective request as JSON in UTF-8, as it is stored: canonical, but for what is only passed through. */
  readonly json: Uint8Array
  /** The size that the price of this text counts; `null` for the one text that requests of this digest can have. */
  readonly spelledSize: number | null
  /** Prices the request. Throws the 400s of `Operation.quote`; must be called for available models only. */
  readonly quote: () => Quote<JsonValue>
}

/** A request with an upload, whose effective request also needs the duration of the audio. */
export interface PreparedUpload {
  readonly kind: 'upload'
  /** Validated options. */
  readonly body: unknown
  readonly upload: MeasuredUpload
  /** The field that the upload was sent in; errors about the upload name it. */
  readonly uploadParam: string
}

/** A request that describes its recording instead of containing it, for a quote only. Nothing of it is proven. */
export interface PreparedDescription {
  readonly kind: 'description'
  /** Validated options. */
  readonly body: unknown
  readonly audio: MeasuredAudio
}

export type Prepared = PreparedRequest | PreparedUpload | PreparedDescription

/** The catalogs that a request is read with. */
export interface ReadingCatalogs {
  /** Decides defaults and limits: of a request under a key with a quote, the catalog of that quote. */
  readonly read: Catalog
  /** Decides the price of a new quote. */
  readonly offered: CurrentCatalog
}

/** Validates and measures a parsed JSON body. Pure. Throws the 400s of the endpoint. */
export function prepareBody(operation: AnyOperation, body: unknown, catalogs: ReadingCatalogs): Prepared {
  const { upload, bodySchema } = operation
  if (!upload)
    return finishRequest(
      operation,
      operation.effectiveRequest(readJsonRequest(body, bodySchema), null, catalogs.read),
      catalogs.offered,
    )
  return finishUpload(readJsonUpload(body, upload, bodySchema))
}

/** Measures the upload of validated fields, unless it was measured before. */
export function finishUpload(
  { body, audio, uploadParam }: UploadRequest<unknown>,
  measured: MeasuredUpload = measureAudio(audio),
): PreparedUpload {
  return { kind: 'upload', body, upload: measured, uploadParam }
}

/**
 * Digests an effective request. Throws `invalid_json` for numbers that cannot be written as JSON again. A quote uses
 * the catalog as it is when it is made, since voices retire and operators publish while the process runs.
 */
export function finishRequest(operation: AnyOperation, effective: JsonValue, offered: CurrentCatalog): PreparedRequest {
  const { spelling } = operation
  const json = Buffer.from(writeJson(() => storedJson(effective)))
  const canonical = digestedJson(operation, effective)
  return {
    kind: 'request',
    publicModel: operation.publicModel(effective),
    requestDigest: sha256Hex(canonical ?? json),
    json,
    spelledSize: canonical === null || json.equals(canonical) ? null : (spelling?.size(effective) ?? null),
    quote: () => operation.quote(effective, withoutRetiredVoices(offered(), new Date())),
  }
}

/** Returns what is digested; `null` where that is the stored text. */
function digestedJson({ spelling }: AnyOperation, effective: JsonValue): Buffer | null {
  if (!spelling) return null
  const text = writeJson(() => {
    const digested = spelling.digested(effective)
    return digested === null ? null : canonicalJson(digested)
  })
  return text === null ? null : Buffer.from(text)
}

function writeJson<Text extends string | null>(write: () => Text): Text {
  try {
    return write()
  } catch (cause) {
    // Schemas have an exponent that cannot be counted, other fields a number that overflows to infinity when parsed.
    if (cause instanceof TypeError)
      throw new AppError('invalid_json', { message: 'The request contains a number that is too large.', cause })
    throw cause
  }
}

/** Returns whether a deployment serves the model: the catalog lists only those, and others have no price. */
export function isAvailable(catalog: Catalog, { category }: AnyOperation, publicModel: string): boolean {
  return findModel(catalog, category, publicModel) !== undefined
}

/** Throws `model_unavailable` (503) for a model that no deployment serves. */
export function requireAvailable(catalog: Catalog, operation: AnyOperation, publicModel: string): void {
  if (!isAvailable(catalog, operation, publicModel)) throw new AppError('model_unavailable', { param: 'model' })
}
