import { callUrl, type KeyedConnection } from '../adapter.ts'
import { emptyOutput, refuseUnsent, unknownOutcome } from '../failures.ts'
import type { SpeechProvider } from '../provider.ts'
import { speechFormat } from '../speech-format.ts'
import { failureOf } from './errors.ts'

/** 2,000 characters at the slowest speed last about four minutes, which are 4 MB at 128 kbit/s. */
const MAXIMUM_RESPONSE_BYTES = 32 * 1024 * 1024

/**
 * Creates the text-to-speech provider for ElevenLabs: one `POST {baseUrl}/v1/text-to-speech/{voice_id}` per call,
 * answered with an MP3 of 44.1 kHz and 128 kbit/s.
 *
 * Throws immediately when the base URL or the key is unusable, since no call could ever succeed.
 * Source: elevenlabs.io/docs/api-reference/text-to-speech/convert, and the vendor's Python SDK,
 * src/elevenlabs/text_to_speech/raw_client.py and types/voice_settings.py.
 */
export function createElevenLabsSpeech(connection: KeyedConnection): SpeechProvider {
  const { apiKey, upstreamModel, http } = connection
  const baseUrl = callUrl('ElevenLabs', connection, '/v1/text-to-speech/')
  const headers = { 'xi-api-key': apiKey, 'content-type': 'application/json', accept: 'audio/mpeg' }

  return {
    async synthesize({ text, voice, speed, ...unsent }, options) {
      const refusal = refuseUnsent(unsent)
      if (refusal) return refusal
      const url = `${baseUrl}${encodeURIComponent(voice)}?output_format=mp3_44100_128`
      // The settings replace those that are stored with the voice, for this request only.
      const body = JSON.stringify({ text, model_id: upstreamModel, voice_settings: { speed } })
      const exchange = await http(
        { method: 'POST', url, headers, body },
        { ...options, maximumResponseBytes: MAXIMUM_RESPONSE_BYTES },
      )
      if (exchange.outcome !== 'response' || exchange.status !== 200) return failureOf(exchange)
      const vendorRequestId = exchange.headers.get('request-id')
      const known = vendorRequestId === null ? {} : { vendorRequestId }
      if (exchange.bytes.byteLength === 0) return { ...emptyOutput('HTTP 200 without audio'), ...known }
      if (speechFormat(exchange.bytes) !== 'mp3')
        return { ...unknownOutcome('HTTP 200 with a body that is not an MP3'), ...known }
      return { outcome: 'synthesized', audio: exchange.bytes, ...known }
    },
  }
}
