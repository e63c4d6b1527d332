import { AppError } from '#shared/errors/app-error.ts'
import type { AdmissionStore } from '#shared/jobs/admission-store.ts'
import { hashMediaToken } from '#shared/media/media.ts'
import type { ObjectStore } from '#shared/media/object-store.ts'
import type { MediaResponse } from '#shared/operations/operation.ts'
import type { AnyOperation } from '#shared/operations/registry.ts'
import type { PaidResponse } from './respond.ts'

interface Dependencies {
  readonly store: Pick<AdmissionStore, 'findMedia'>
  readonly media: Pick<ObjectStore, 'get'>
}

/** Returns the operation's media response when the `Accept` header asks for it. */
export function requestedMedia({ mediaResponse }: AnyOperation, accept = ''): MediaResponse | null {
  const types = accept.split(',').map((entry) => entry.split(';', 1)[0]?.trim().toLowerCase() ?? '')
  return mediaResponse && types.some((type) => mediaResponse.accepts(type)) ? mediaResponse : null
}

/**
 * Replaces the JSON result with the media themselves; the other fields travel in headers. Throws `result_expired` (410)
 * for a hosted file past its expiry.
 */
export async function respondWithMedia(
  { store, media }: Dependencies,
  response: PaidResponse,
  mediaResponse: MediaResponse,
): Promise<PaidResponse> {
  const { url, headers: mediaHeaders } = mediaResponse.read(JSON.parse(String(response.body)))
  const found = await store.findMedia(hashMediaToken(url.slice(url.lastIndexOf('/') + 1)))
  // The caller gets the receipt headers even when the file is gone.
  const { 'content-type': _, ...headers } = response.headers
  if (!found) throw new AppError('result_expired', { headers })
  const bytes = await media.get(found.objectKey).catch((cause: unknown) => {
    throw new AppError('media_unavailable', { headers, cause })
  })
  if (!bytes) throw new AppError('media_unavailable', { headers })
  return {
    ...response,
    headers: {
      ...response.headers,
      ...mediaHeaders,
    },
    body: Buffer.from(bytes),
  }
}
