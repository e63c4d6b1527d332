import type { FastifyRequest } from 'fastify'
import { canonicalJson, type JsonValue, sha256Hex } from '#shared/digests/canonical-json.ts'
import { AppError } from '#shared/errors/app-error.ts'
import type { AnyOperation } from '#shared/operations/registry.ts'
import type { Mp3Inspector } from './audio/inspect-mp3.ts'
import { readJsonRequest } from './read-json-request.ts'
import { readJsonUpload, readMultipartRequest, type UploadRequest } from './read-upload-request.ts'

/** What will really be executed, with the digest that identifies it and the upload that it speaks of, if any. */
export interface EffectiveRequest {
  readonly effective: JsonValue
  /** SHA-256 over the canonical JSON; payment headers, spelling, spacing and order do not enter it. */
  readonly requestDigest: string
  readonly audio: Uint8Array | null
}

/** Validates, applies defaults and measures an upload. Throws every 400 of the endpoint; no provider, no money yet. */
export async function readEffectiveRequest(
  { mp3Inspector }: { mp3Inspector: Mp3Inspector },
  operation: AnyOperation,
  request: FastifyRequest,
): Promise<EffectiveRequest> {
  const { upload, bodySchema } = operation
  if (!upload || !request.isMultipart()) return readEffectiveBody({ mp3Inspector }, operation, request.body)
  return measureUpload({ mp3Inspector }, operation, await readMultipartRequest(request, upload, bodySchema))
}

/** The same for a parsed JSON body, wherever it came from. */
export async function readEffectiveBody(
  { mp3Inspector }: { mp3Inspector: Mp3Inspector },
  operation: AnyOperation,
  body: unknown,
): Promise<EffectiveRequest> {
  const { upload, bodySchema } = operation
  if (upload) return measureUpload({ mp3Inspector }, operation, readJsonUpload(body, upload, bodySchema))
  return withDigest(operation.effectiveRequest(readJsonRequest(body, bodySchema), null), null)
}

async function measureUpload(
  { mp3Inspector }: { mp3Inspector: Mp3Inspector },
  operation: AnyOperation,
  { body, audio, uploadParam }: UploadRequest<unknown>,
): Promise<EffectiveRequest> {
  const sha256 = sha256Hex(audio)
  const { durationMs } = await mp3Inspector.inspect(audio, sha256, uploadParam)
  return withDigest(operation.effectiveRequest(body, { sha256, bytes: audio.length, durationMs }), audio)
}

function withDigest(effective: JsonValue, audio: Uint8Array | null): EffectiveRequest {
  try {
    return { effective, requestDigest: sha256Hex(canonicalJson(effective)), audio }
  } catch (cause) {
    // JSON may write a number, such as 1e400, that no JSON number can carry on.
    if (cause instanceof TypeError)
      throw new AppError('invalid_json', { message: 'The request holds a number that is too large.', cause })
    throw cause
  }
}
