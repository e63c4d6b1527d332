import { callUrl, type KeyedConnection } from '../adapter.ts'
import { emptyOutput, unknownOutcome } from '../failures.ts'
import { languageCode, withoutRegion } from '../language-code.ts'
import { readLeniently, withMended } from '../lenient.ts'
import type {
  TranscribedCharacter,
  TranscribedWord,
  Transcript,
  TranscriptionInput,
  TranscriptionOutcome,
  TranscriptionProvider,
} from '../provider.ts'
import { type StreamedBody, streamedForm } from '../streamed-body.ts'
import { haveTimes, withTimes } from '../timed-items.ts'
import { readJson } from '../wire-fields.ts'
import { failureOf } from './errors.ts'
import { transcriptWire, type WordWire } from './wire.ts'

/**
 * Fast speech has about 25 characters a second and an item of `characters` takes about 60 bytes, so 32 MiB fit more
 * than five hours of the most detailed answer.
 */
const MAXIMUM_RESPONSE_BYTES = 32 * 1024 * 1024

/**
 * Creates the speech-to-text provider for ElevenLabs: one `POST {baseUrl}/v1/speech-to-text` per call.
 *
 * Throws immediately when the base URL or the key is unusable, since no call could ever succeed.
 * Source: elevenlabs.io/docs/api-reference/speech-to-text/convert
 */
export function createElevenLabsTranscription(connection: KeyedConnection): TranscriptionProvider {
  const { apiKey, upstreamModel, http } = connection
  const url = callUrl('ElevenLabs', connection, '/v1/speech-to-text')
  return {
    async transcribe(input, options) {
      const exchange = await http(
        { method: 'POST', url, headers: { 'xi-api-key': apiKey }, body: requestForm(input, upstreamModel) },
        { ...options, maximumResponseBytes: MAXIMUM_RESPONSE_BYTES },
      )
      if (exchange.outcome !== 'response' || exchange.status !== 200) return failureOf(exchange)
      return readTranscript(exchange.bytes, input)
    },
  }
}

/**
 * Sends every option that has an upstream default: `tag_audio_events` defaults to true and `timestamps_granularity` to
 * `word` there, both unlike ours.
 */
function requestForm(input: TranscriptionInput, upstreamModel: string): StreamedBody {
  const fields = {
    model_id: upstreamModel,
    timestamps_granularity: input.timestamps === 'none' && wantsWords(input) ? 'word' : input.timestamps,
    diarize: String(input.diarize),
    tag_audio_events: String(input.tagAudioEvents),
    ...(input.numSpeakers === undefined ? {} : { num_speakers: String(input.numSpeakers) }),
    ...(input.language === undefined ? {} : { language_code: withoutRegion(input.language) }),
  }
  return streamedForm(fields, { field: 'file', name: 'audio.mp3', contentType: 'audio/mpeg', bytes: input.audio })
}

function wantsWords(input: TranscriptionInput): boolean {
  return input.needsWords || input.diarize || input.timestamps !== 'none'
}

function readTranscript(bytes: Uint8Array, input: TranscriptionInput): TranscriptionOutcome {
  const body = readJson(bytes)
  if (body === undefined) return unknownOutcome('HTTP 200 with a body that is not JSON')
  const { value: answer, mended } = readLeniently(transcriptWire, body)
  if (answer === undefined) return unknownOutcome('HTTP 200 with a malformed transcript')
  const written = answer.text ?? answer.words.map((word) => word.text).join('')
  if (answer.text === undefined && written === '') return emptyOutput('HTTP 200 without a transcript')
  // A recording without speech has a blank transcript.
  const text = written.trim() === '' ? '' : written
  const language = languageCode(answer.language_code)
  const { words, missing } = text === '' ? { words: [], missing: [] } : readWords(answer.words, input)
  const transcript: Transcript = {
    text,
    ...(language === undefined ? {} : { language }),
    ...(answer.language_probability === undefined
      ? {}
      : {
          languageProbabilityMillionths: Math.round(Math.min(1, Math.max(0, answer.language_probability)) * 1_000_000),
        }),
    ...(wantsWords(input) ? { words } : {}),
  }
  const { transcription_id: id } = answer
  const outcome = { outcome: 'transcribed' as const, transcript, ...(id === undefined ? {} : { vendorRequestId: id }) }
  return withMended(outcome, wantsWords(input) ? [...mended, ...missing] : mended)
}

/** Reads the words; `missing` names what was asked for and is not there. */
function readWords(
  words: readonly WordWire[],
  input: TranscriptionInput,
): { words: TranscribedWord[]; missing: readonly string[] } {
  if (!haveTimes(words)) return { words: [], missing: ['words'] }
  const wantsCharacters = input.timestamps === 'character' && words.some(({ characters }) => characters.length > 0)
  const read = withTimes(words, 0).map(({ item, ...times }) => ({
    text: item.text,
    type: typeOf(item),
    ...times,
    ...(input.diarize && item.speaker_id !== undefined ? { speaker: item.speaker_id } : {}),
    ...(wantsCharacters ? { characters: readCharacters(item, times.startSeconds) } : {}),
  }))
  const isWithoutCharacters = input.timestamps === 'character' && !wantsCharacters
  return { words: read, missing: isWithoutCharacters ? ['words.characters'] : [] }
}

/** Returns the type, or the nearest to one that is unknown: sounds are in brackets, spaces are spacing. */
function typeOf({ type, text }: WordWire): TranscribedWord['type'] {
  if (type === 'word' || type === 'spacing' || type === 'audio_event') return type
  if (text.trim() === '') return 'spacing'
  return /^[([].*[)\]]$/s.test(text.trim()) ? 'audio_event' : 'word'
}

function readCharacters(word: WordWire, earliestSeconds: number): TranscribedCharacter[] {
  return withTimes(word.characters, earliestSeconds).map(({ item, ...times }) => ({ text: item.text, ...times }))
}
