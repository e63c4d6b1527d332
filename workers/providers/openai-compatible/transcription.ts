import { openAiTranscriptionObstacle } from '#shared/operations/vendors/openai-compatible.ts'
import type { OpenConnection } from '../adapter.ts'
import { emptyOutput, unknownOutcome, unserviceable } from '../failures.ts'
import { languageCode, shortLanguageCode } from '../language-code.ts'
import type { TranscribedWord, TranscriptionInput, TranscriptionOutcome, TranscriptionProvider } from '../provider.ts'
import { type StreamedBody, streamedForm } from '../streamed-body.ts'
import { readJson } from '../wire-fields.ts'
import { callId, createPost } from './connection.ts'
import { failureOf, MEDIA_SETUP_FIELDS } from './errors.ts'
import { transcriptionWire, wordsWire } from './wire.ts'

/**
 * An hour of fast speech is about 12,000 words of about 60 bytes each, and `segments` repeat the text with token lists.
 */
const MAXIMUM_RESPONSE_BYTES = 32 * 1024 * 1024

/**
 * Creates the speech-to-text provider for an OpenAI-style server (OpenAI's whisper-1, vLLM, LocalAI, Speaches): one
 * multipart `POST {baseUrl}/audio/transcriptions` per call, answered as `verbose_json`.
 *
 * This API has no speakers, audio events or character times; a request for any of them is not sent and left to another
 * deployment (`unserviceable`). Throws like `createPost`. Source: see `wire.ts`.
 */
export function createOpenAiCompatibleTranscription(dependencies: OpenConnection): TranscriptionProvider {
  const post = createPost(dependencies, '/audio/transcriptions')
  return {
    async transcribe(input, options) {
      const { diarize, tagAudioEvents: tag_audio_events, timestamps } = input
      const obstacle = openAiTranscriptionObstacle({ diarize, tag_audio_events, timestamps })
      if (obstacle !== undefined) return unserviceable(`not sent: this API has no ${obstacle.what}`)
      const form = requestForm(input, dependencies.upstreamModel)
      const exchange = await post(form, { ...options, maximumResponseBytes: MAXIMUM_RESPONSE_BYTES })
      if (exchange.outcome !== 'response' || exchange.status !== 200) return failureOf(exchange, MEDIA_SETUP_FIELDS)
      return { ...readTranscript(exchange.bytes, input), ...callId(exchange.headers) }
    },
  }
}

function requestForm(input: TranscriptionInput, upstreamModel: string): StreamedBody {
  const fields = {
    model: upstreamModel,
    response_format: 'verbose_json',
    ...(wantsWords(input) ? { 'timestamp_granularities[]': 'word' } : {}),
    ...(input.language === undefined ? {} : { language: shortLanguageCode(input.language) }),
  }
  return streamedForm(fields, { field: 'file', name: 'audio.mp3', contentType: 'audio/mpeg', bytes: input.audio })
}

function wantsWords(input: TranscriptionInput): boolean {
  return input.needsWords || input.timestamps !== 'none'
}

function readTranscript(bytes: Uint8Array, input: TranscriptionInput): TranscriptionOutcome {
  const answer = transcriptionWire.safeParse(readJson(bytes))
  if (!answer.success) return unknownOutcome('HTTP 200 with a malformed transcript')
  if (typeof answer.data.text !== 'string') return emptyOutput('HTTP 200 without a transcript')
  // Whisper starts every segment with a space. A recording without speech has a blank transcript.
  const text = answer.data.text.trim()
  const language = languageCode(answer.data.language)
  const words = wantsWords(input) ? readWords(text === '' ? [] : answer.data.words) : undefined
  if (words?.length === 0 && text !== '') return unknownOutcome('HTTP 200 without usable words')
  return {
    outcome: 'transcribed',
    transcript: {
      text,
      ...(language === undefined ? {} : { language }),
      ...(words === undefined ? {} : { words }),
    },
  }
}

/** Returns no words when they are malformed. Servers built on faster-whisper keep the space before each word. */
function readWords(words: unknown): TranscribedWord[] {
  const parsed = wordsWire.safeParse(words)
  if (!parsed.success) return []
  return parsed.data.flatMap(({ word, start, end }) => {
    const text = word.trim()
    if (text === '') return []
    return [{ text, type: 'word' as const, startSeconds: start, endSeconds: Math.max(start, end) }]
  })
}
