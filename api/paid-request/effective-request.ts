import type { FastifyRequest } from 'fastify'
import { canonicalJson, type JsonValue, sha256Hex } from '#shared/digests/canonical-json.ts'
import type { AnyOperation } from '#shared/operations/registry.ts'
import type { Mp3Inspector } from './audio/inspect-mp3.ts'
import { readUploadRequest } from './read-upload-request.ts'

/** What will really be executed, with the digest that identifies it and the upload that it speaks of. */
export interface EffectiveRequest {
  readonly effective: JsonValue
  /** SHA-256 over the canonical JSON; payment headers, spelling, spacing and order do not enter it. */
  readonly requestDigest: string
  readonly audio: Uint8Array
}

/** Validates, applies defaults and measures the upload. Throws every 400 of the endpoint; no provider, no money yet. */
export async function readEffectiveRequest(
  { mp3Inspector }: { mp3Inspector: Mp3Inspector },
  operation: AnyOperation,
  request: FastifyRequest,
): Promise<EffectiveRequest> {
  const { options, audio, uploadParam } = await readUploadRequest(request, operation.upload, operation.optionsSchema)
  const sha256 = sha256Hex(audio)
  const { durationMs } = await mp3Inspector.inspect(audio, sha256, uploadParam)
  const effective = operation.effectiveRequest(options, { sha256, bytes: audio.length, durationMs })
  return { effective, requestDigest: sha256Hex(canonicalJson(effective)), audio }
}
