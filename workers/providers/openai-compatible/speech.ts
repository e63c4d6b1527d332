import type { OpenConnection } from '../adapter.ts'
import { emptyOutput, refuseUnsent, unknownOutcome } from '../failures.ts'
import type { SpeechProvider } from '../provider.ts'
import { speechFormat } from '../speech-format.ts'
import { callId, createPost } from './connection.ts'
import { failureOf, MEDIA_SETUP_FIELDS } from './errors.ts'

/** 2,000 characters at the slowest speed last about four minutes, which are 10 MB at the highest bitrate. */
const MAXIMUM_RESPONSE_BYTES = 32 * 1024 * 1024

/** The formats of this API that are sold, or converted to what is: raw samples and bare AAC do not say their rate or length. */
export const SPEECH_FORMATS = ['mp3', 'wav', 'flac', 'opus'] as const

export interface OpenAiSpeechSettings {
  readonly format: (typeof SPEECH_FORMATS)[number]
}

/**
 * Creates the text-to-speech provider for an OpenAI-style server: one `POST {baseUrl}/audio/speech` per call, answered with
 * an MP3, WAV, FLAC or Ogg, whichever it was asked for: LocalAI's backends, for example, may know WAV alone. Throws like
 * `createPost`. Source: the npm package `openai` 7, resources/audio/speech.d.ts.
 */
export function createOpenAiCompatibleSpeech(
  dependencies: OpenConnection,
  { format }: OpenAiSpeechSettings,
): SpeechProvider {
  const post = createPost(dependencies, '/audio/speech')
  return {
    async synthesize({ text, voice, speed, ...unsent }, options) {
      const refusal = refuseUnsent(unsent)
      if (refusal) return refusal
      const exchange = await post(
        { model: dependencies.upstreamModel, input: text, voice, response_format: format, speed },
        { ...options, maximumResponseBytes: MAXIMUM_RESPONSE_BYTES },
      )
      if (exchange.outcome !== 'response' || exchange.status !== 200) return failureOf(exchange, MEDIA_SETUP_FIELDS)
      const known = callId(exchange.headers)
      if (exchange.bytes.byteLength === 0) return { ...emptyOutput('HTTP 200 without audio'), ...known }
      const received = speechFormat(exchange.bytes)
      if (received === undefined)
        return { ...unknownOutcome('HTTP 200 with a body that is neither MP3, WAV, FLAC nor Ogg'), ...known }
      return { outcome: 'synthesized', audio: exchange.bytes, format: received, ...known }
    },
  }
}
