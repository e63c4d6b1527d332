import { type OpenAiCarriedOptions, openAiTranscriptionObstacle } from '#shared/operations/vendors/openai-compatible.ts'
import type { OpenConnection } from '../adapter.ts'
import { emptyOutput, unknownOutcome, unserviceable } from '../failures.ts'
import { languageCode, shortLanguageCode } from '../language-code.ts'
import { readLeniently, withMended } from '../lenient.ts'
import type { TranscriptionInput, TranscriptionOutcome, TranscriptionProvider } from '../provider.ts'
import { type StreamedBody, streamedForm } from '../streamed-body.ts'
import { readJson } from '../wire-fields.ts'
import { callId, createPost } from './connection.ts'
import { failureOf, MEDIA_SETUP_FIELDS } from './errors.ts'
import { joinedText, wordsOf } from './transcript-words.ts'
import { transcriptionWire } from './wire.ts'

/** An hour of whisper.cpp's tokens has about 20,000 of about 120 bytes each, and `segments` repeat them as numbers. */
const MAXIMUM_RESPONSE_BYTES = 32 * 1024 * 1024

export interface OpenAiTranscriptionSettings extends Pick<OpenAiCarriedOptions, 'transcript_detail'> {
  /** Below the base URL; whisper.cpp's server has `/inference`. */
  readonly path: string
  /** The `language` of a request that names none, for a server that otherwise assumes one. Not sent unless set. */
  readonly automaticLanguage?: string | undefined
}

/**
 * Creates the speech-to-text provider for an OpenAI-style server: one multipart `POST` per call, answered as `verbose_json`,
 * or as `json` by a server that knows no more than text.
 *
 * This API has no speakers, audio events or character times, and some servers have no times of words; a request for any of
 * them is not sent and left to another deployment (`unserviceable`). Throws like `createPost`. Source: see `wire.ts`.
 */
export function createOpenAiCompatibleTranscription(
  dependencies: OpenConnection,
  settings: OpenAiTranscriptionSettings,
): TranscriptionProvider {
  const post = createPost(dependencies, settings.path)
  return {
    async transcribe(input, options) {
      const obstacle = openAiTranscriptionObstacle(
        {
          diarize: input.diarize,
          tag_audio_events: input.tagAudioEvents,
          timestamps: input.timestamps,
          response_format: input.needsWords ? 'verbose_json' : 'json',
        },
        settings,
      )
      if (obstacle !== undefined) return unserviceable(`not sent: this API has no ${obstacle.what}`)
      const form = requestForm(input, dependencies.upstreamModel, settings)
      const exchange = await post(form, { ...options, maximumResponseBytes: MAXIMUM_RESPONSE_BYTES })
      if (exchange.outcome !== 'response' || exchange.status !== 200) return failureOf(exchange, MEDIA_SETUP_FIELDS)
      return { ...readTranscript(exchange.bytes, input), ...callId(exchange.headers) }
    },
  }
}

function requestForm(
  input: TranscriptionInput,
  upstreamModel: string,
  { transcript_detail: detail, automaticLanguage }: OpenAiTranscriptionSettings,
): StreamedBody {
  const language = input.language === undefined ? automaticLanguage : shortLanguageCode(input.language)
  const fields = {
    model: upstreamModel,
    response_format: detail === 'text' ? 'json' : 'verbose_json',
    ...(wantsWords(input) ? { 'timestamp_granularities[]': 'word' } : {}),
    ...(language === undefined ? {} : { language }),
  }
  return streamedForm(fields, { field: 'file', name: 'audio.mp3', contentType: 'audio/mpeg', bytes: input.audio })
}

function wantsWords(input: TranscriptionInput): boolean {
  return input.needsWords || input.timestamps !== 'none'
}

function readTranscript(bytes: Uint8Array, input: TranscriptionInput): TranscriptionOutcome {
  const { value: answer, mended } = readLeniently(transcriptionWire, readJson(bytes))
  if (answer === undefined) return unknownOutcome('HTTP 200 with a malformed transcript')
  const spoken = wordsOf(answer)
  const written = answer.text ?? joinedText(answer)
  if (answer.text === undefined && written === '') return emptyOutput('HTTP 200 without a transcript')
  // Whisper starts every segment with a space. A recording without speech has a blank transcript.
  const text = written.trim()
  const language = languageCode(answer.language)
  const words = text === '' ? [] : spoken
  const isWithoutWords = wantsWords(input) && text !== '' && words.length === 0
  const transcript = {
    text,
    ...(language === undefined ? {} : { language }),
    ...(wantsWords(input) ? { words } : {}),
  }
  return withMended({ outcome: 'transcribed', transcript }, isWithoutWords ? [...mended, 'words'] : mended)
}
