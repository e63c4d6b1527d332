import type { AcceptanceStore } from '#shared/adapters/postgres/acceptance/acceptance-store.ts'
import { AppError } from '#shared/errors/app-error.ts'
import { hashMediaToken } from '#shared/media/media.ts'
import type { ObjectStore } from '#shared/media/object-store.ts'
import type { MediaResponse } from '#shared/operations/operation.ts'
import type { AnyOperation } from '#shared/operations/registry.ts'
import { acceptQuality } from '../../request/accept-quality.ts'
import type { PaidResponse } from './respond.ts'

interface Dependencies {
  readonly store: Pick<AcceptanceStore, 'findMedia'>
  readonly media: Pick<ObjectStore, 'get'>
}

/**
 * Returns the operation's media response when the `Accept` header prefers it to JSON. JSON is preferred when both are
 * equal, and is the answer when the header accepts neither: the call is paid for.
 */
export function requestedMedia({ mediaResponse }: AnyOperation, accept: string | undefined): MediaResponse | null {
  if (!mediaResponse) return null
  const quality = Math.max(...mediaResponse.acceptedAs.map((type) => acceptQuality(accept, type)))
  return quality > acceptQuality(accept, 'application/json') ? mediaResponse : null
}

const FILE_EXPIRED =
  'The hosted file of this call has expired. Its JSON result is still available: repeat the same request with "Accept: application/json".'

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
  // The receipt's token and the proof of settlement come with the result only; its id is no secret.
  const { 'x-receipt-id': receiptId } = response.headers
  const headers: Record<string, string> = receiptId === undefined ? {} : { 'x-receipt-id': receiptId }
  if (!found) throw new AppError('result_expired', { headers, message: FILE_EXPIRED })
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
