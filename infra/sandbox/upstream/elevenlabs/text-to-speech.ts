import { z } from 'zod'
import type { Speak } from '../speaking/speak.ts'
import { type ListingRoute, ok, type VendorAnswer, type VendorRequest, type VendorRoute } from '../vendor-route.ts'
import { invalid, refusal, refuseKey } from './refusals.ts'

/** The models of speech synthesis that are known here. */
const SPEECH_MODELS: ReadonlySet<string> = new Set(['eleven_flash_v2_5', 'eleven_multilingual_v2'])

/** The limit of one request to the Flash models. */
const MAXIMUM_CHARACTERS = 40_000

/** The vendor's default, named codec_sample-rate_bitrate; no other is simulated. */
const FORMAT = 'mp3_44100_128'

const requestBody = z.object({
  text: z.string(),
  model_id: z.string().default('eleven_multilingual_v2'),
  voice_settings: z.object({ speed: z.number().min(0.7).max(1.2).nullish() }).nullish(),
})

/**
 * Creates `POST /v1/text-to-speech/{voice_id}` as documented by ElevenLabs: the format in the query, JSON in, MP3 out, request
 * id and billed characters in headers. Every voice id is known except those that start with `unknown`, and usable except those
 * that start with `library`, as Voice Library voices are for a free plan. The wording of refusals is our own.
 *
 * Source: elevenlabs.io/docs/api-reference/text-to-speech/convert
 */
export function createTextToSpeechRoute(speak: Speak): VendorRoute {
  return {
    path: '/v1/text-to-speech/{voice_id}',
    refuseKey,
    describe: ({ parameter, query }) => ({ voice_id: parameter, output_format: query.get('output_format') ?? '' }),
    answer: (request) => answerSpeech(request, speak),
  }
}

/** Returns whether the account has the voice. */
function isKnownVoice(voice: string): boolean {
  return !voice.startsWith('unknown')
}

async function answerSpeech(request: VendorRequest, speak: Speak): Promise<VendorAnswer> {
  const { parameter: voice, query, json, digest, lacks, signal } = request
  const { data, error } = requestBody.safeParse(json)
  if (data === undefined) {
    const detail = error.issues.map(({ code, path }) => ({
      type: code,
      loc: ['body', ...path],
      msg: 'Invalid',
      input: null,
    }))
    return { status: 422, body: { detail } }
  }
  const { text, model_id: model, voice_settings: settings } = data
  if (!SPEECH_MODELS.has(model)) return invalid('model_not_found', `A model with ID ${model} does not exist.`)
  if ((query.get('output_format') ?? FORMAT) !== FORMAT) return invalid('invalid_parameters', 'Unknown output_format.')
  if (!isKnownVoice(voice))
    return refusal(400, 'not_found', 'voice_not_found', `A voice with the voice_id ${voice} was not found.`)
  if (voice.startsWith('library')) return invalid('invalid_uid', `An invalid ID has been received: '${voice}'.`)
  const characters = Array.from(text).length
  if (characters > MAXIMUM_CHARACTERS) {
    const message = `This request's text exceeds the character limit of ${MAXIMUM_CHARACTERS} characters.`
    return invalid('max_character_limit_exceeded', message)
  }
  if (text.trim() === '') return invalid('invalid_parameters', 'The text has nothing to speak.')
  const speech = { text, voice, speed: settings?.speed ?? 1, sampleRate: 44_100 } as const
  const audio = lacks === 'output' ? new Uint8Array() : await speak(speech, signal)
  const headers = { 'request-id': digest.slice(0, 20), 'x-character-count': String(characters) }
  return ok(audio, { 'content-type': 'audio/mpeg', ...headers })
}

/**
 * `GET /v1/models` as documented by ElevenLabs, which lists models of speech synthesis.
 * Source: elevenlabs.io/docs/api-reference/models/list
 */
export const modelsRoute: ListingRoute = {
  path: '/v1/models',
  refuseKey,
  header: 'xi-api-key',
  answer: () =>
    ok(
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
    return ok({ voices, has_more: false, total_count: voices.length })
  },
}
