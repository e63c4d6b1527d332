import type { OpenConnection } from '../adapter.ts'
import { emptyOutput, refuseUnsent, unknownOutcome } from '../failures.ts'
import type { SpeechProvider } from '../provider.ts'
import { looksLikeMp3 } from '../received-media.ts'
import { callId, createPost } from './connection.ts'
import { failureOf, MEDIA_SETUP_FIELDS } from './errors.ts'

/** 2,000 characters at the slowest speed last about four minutes, which are 10 MB at the highest bitrate. */
const MAXIMUM_RESPONSE_BYTES = 32 * 1024 * 1024

/**
 * Creates the text-to-speech provider for an OpenAI-style server: one `POST {baseUrl}/audio/speech` per call, answered
 * with an MP3. Throws like `createPost`. Source: the npm package `openai` 7, resources/audio/speech.d.ts.
 */
export function createOpenAiCompatibleSpeech(dependencies: OpenConnection): SpeechProvider {
  const post = createPost(dependencies, '/audio/speech')
  return {
    async synthesize({ text, voice, speed, ...unsent }, options) {
      const refusal = refuseUnsent(unsent)
      if (refusal) return refusal
      const exchange = await post(
        { model: dependencies.upstreamModel, input: text, voice, response_format: 'mp3', speed },
        { ...options, maximumResponseBytes: MAXIMUM_RESPONSE_BYTES },
      )
      if (exchange.outcome !== 'response' || exchange.status !== 200) return failureOf(exchange, MEDIA_SETUP_FIELDS)
      const known = callId(exchange.headers)
      if (exchange.bytes.byteLength === 0) return { ...emptyOutput('HTTP 200 without audio'), ...known }
      if (!looksLikeMp3(exchange.bytes))
        return { ...unknownOutcome('HTTP 200 with a body that is not an MP3'), ...known }
      return { outcome: 'synthesized', audio: exchange.bytes, ...known }
    },
  }
}
