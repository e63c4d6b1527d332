import { type ListingRoute, listed } from '../vendor-route.ts'
import { refuseKey } from './refusals.ts'
import { isKnownVoice, SPEECH_MODELS } from './text-to-speech.ts'

/**
 * `GET /v1/models` as documented by ElevenLabs, which lists models of speech synthesis.
 * Source: elevenlabs.io/docs/api-reference/models/list
 */
export const modelsRoute: ListingRoute = {
  path: '/v1/models',
  refuseKey,
  accepts: (headers) => headers.has('xi-api-key'),
  answer: () =>
    listed(
      [...SPEECH_MODELS].map((model_id) => ({
        model_id,
        name: model_id,
        can_do_text_to_speech: true,
        maximum_text_length_per_request: 40_000,
        languages: [{ language_id: 'en', name: 'English' }],
      })),
    ),
}

/** `GET /v2/voices`, for a search by ids. Source: elevenlabs.io/docs/api-reference/voices/search */
export const voicesRoute: ListingRoute = {
  path: '/v2/voices',
  refuseKey,
  answer: ({ query }) => {
    const ids = query.getAll('voice_ids').filter(isKnownVoice)
    const voices = ids.map((voice_id) => ({ voice_id, name: voice_id, category: 'generated' }))
    return listed({ voices, has_more: false, total_count: voices.length })
  },
}
