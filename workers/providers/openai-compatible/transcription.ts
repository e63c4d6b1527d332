import type { z } from 'zod'
import { openAiTranscriptionObstacle } from '#shared/operations/vendors/openai-compatible.ts'
import type { OpenConnection } from '../adapter.ts'
import { emptyOutput, unknownOutcome, unserviceable } from '../failures.ts'
import { languageCode, shortLanguageCode } from '../language-code.ts'
import { readLeniently, withMended } from '../lenient.ts'
import type { TranscribedWord, TranscriptionInput, TranscriptionOutcome, TranscriptionProvider } from '../provider.ts'
import { type StreamedBody, streamedForm } from '../streamed-body.ts'
import { haveTimes, withTimes } from '../timed-items.ts'
import { readJson } from '../wire-fields.ts'
import { callId, createPost } from './connection.ts'
import { failureOf, MEDIA_SETUP_FIELDS } from './errors.ts'
import { transcriptionWire } from './wire.ts'

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
  const { value: answer, mended } = readLeniently(transcriptionWire, readJson(bytes))
  if (answer === undefined) return unknownOutcome('HTTP 200 with a malformed transcript')
  const spoken = readWords(answer.words)
  if (answer.text === undefined && spoken.length === 0) return emptyOutput('HTTP 200 without a transcript')
  // Whisper starts every segment with a space. A recording without speech has a blank transcript.
  const text = (answer.text ?? spoken.map((word) => word.text).join(' ')).trim()
  const language = languageCode(answer.language)
  const words = text === '' || !haveTimes(answer.words) ? [] : spoken
  const isWithoutWords = wantsWords(input) && text !== '' && words.length === 0
  const transcript = {
    text,
    ...(language === undefined ? {} : { language }),
    ...(wantsWords(input) ? { words } : {}),
  }
  return withMended({ outcome: 'transcribed', transcript }, isWithoutWords ? [...mended, 'words'] : mended)
}

/** Of words without any time there is nothing to tell. Servers built on faster-whisper keep the space before each word. */
function readWords(words: z.infer<typeof transcriptionWire>['words']): TranscribedWord[] {
  if (!words.some(({ start, end }) => (start ?? end) !== undefined)) return []
  return withTimes(words, 0).flatMap(({ item, ...times }) => {
    const text = item.word.trim()
    return text === '' ? [] : [{ text, type: 'word' as const, ...times }]
  })
}
