import { z } from 'zod'
import { AppError } from '#shared/errors/app-error.ts'
import type { AdmissionStore } from '#shared/jobs/job-store.ts'
import { hashMediaToken } from '#shared/media/media.ts'
import type { ObjectStore } from '#shared/media/object-store.ts'
import type { PaidAnswer } from './respond.ts'

interface Dependencies {
  readonly store: Pick<AdmissionStore, 'findMedia'>
  readonly media: Pick<ObjectStore, 'get'>
}

const speechSchema = z.object({
  usage: z.object({ input_characters: z.int() }),
  data: z.tuple([z.object({ url: z.url(), expires_at: z.string(), duration_ms: z.int(), content_type: z.string() })]),
})

/** Whether a caller names audio explicitly. JSON is the specified default; the openai SDK asks for an octet stream. */
export function wantsAudioBytes(operationId: string, accept: string | undefined): boolean {
  if (operationId !== 'createSpeech' || accept === undefined) return false
  const types = accept.split(',').map((entry) => entry.split(';', 1)[0]?.trim().toLowerCase() ?? '')
  return types.some((type) => type.startsWith('audio/') || type === 'application/octet-stream')
}

/** The MP3 itself in place of the JSON result, whose fields go into headers. A hosted file past its expiry is 410. */
export async function asAudioBytes({ store, media }: Dependencies, answer: PaidAnswer): Promise<PaidAnswer> {
  const { usage, data } = speechSchema.parse(JSON.parse(String(answer.body)))
  const [{ url, expires_at, duration_ms, content_type }] = data
  const found = await store.findMedia(hashMediaToken(url.slice(url.lastIndexOf('/') + 1)))
  // The receipt stays known to the caller whatever becomes of the file.
  const { 'content-type': _, ...headers } = answer.headers
  if (!found) throw new AppError('result_expired', { headers })
  const bytes = await media.get(found.objectKey).catch((cause: unknown) => {
    throw new AppError('media_unavailable', { headers, cause })
  })
  if (!bytes) throw new AppError('media_unavailable', { headers })
  return {
    ...answer,
    headers: {
      ...answer.headers,
      'content-type': content_type,
      'x-media-url': url,
      'x-media-expires-at': expires_at,
      'x-audio-duration-ms': duration_ms.toString(),
      'x-input-characters': usage.input_characters.toString(),
    },
    body: Buffer.from(bytes),
  }
}
