import type { ListingRoute } from '../vendor-route.ts'
import { refuseKey } from './refusals.ts'
import { isKnownVoice, SPEECH_MODELS } from './text-to-speech.ts'

interface Options {
  readonly apiKey: string | undefined
}

/**
 * Creates `GET /v1/models` as documented by ElevenLabs, which lists models of speech synthesis.
 * Source: elevenlabs.io/docs/api-reference/models/list
 */
export function createModelsRoute({ apiKey }: Options): ListingRoute {
  return {
    path: '/v1/models',
    accepts: (headers) => headers.has('xi-api-key'),
    answer: (request) => {
      const models = [...SPEECH_MODELS].map((model_id) => ({
        model_id,
        name: model_id,
        can_do_text_to_speech: true,
        maximum_text_length_per_request: 40_000,
        languages: [{ language_id: 'en', name: 'English' }],
      }))
      return refuseKey(request, apiKey) ?? { status: 200, accepted: false, body: models }
    },
  }
}

/**
 * Creates `GET /v2/voices`, for a search by ids. Source: elevenlabs.io/docs/api-reference/voices/search
 */
export function createVoicesRoute({ apiKey }: Options): ListingRoute {
  return {
    path: '/v2/voices',
    answer: (request) => {
      const ids = request.url.searchParams.getAll('voice_ids').filter(isKnownVoice)
      const voices = ids.map((voice_id) => ({ voice_id, name: voice_id, category: 'generated' }))
      const body = { voices, has_more: false, total_count: voices.length }
      return refuseKey(request, apiKey) ?? { status: 200, accepted: false, body }
    },
  }
}
