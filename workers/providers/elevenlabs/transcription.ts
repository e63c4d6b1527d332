import { callUrl, type KeyedConnection } from '../adapter.ts'
import { emptyOutput, unknownOutcome } from '../failures.ts'
import { languageCode, withoutRegion } from '../language-code.ts'
import type {
  TranscribedCharacter,
  TranscribedWord,
  Transcript,
  TranscriptionInput,
  TranscriptionOutcome,
  TranscriptionProvider,
} from '../provider.ts'
import { type StreamedBody, streamedForm } from '../streamed-body.ts'
import { readJson } from '../wire-fields.ts'
import { failureOf } from './errors.ts'
import { transcriptWire, type WordWire, wordsWire } from './wire.ts'

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
  const answer = transcriptWire.safeParse(body)
  if (!answer.success) return unknownOutcome('HTTP 200 with a malformed transcript')
  const { language_probability: probability } = answer.data
  if (typeof answer.data.text !== 'string') return emptyOutput('HTTP 200 without a transcript')
  // A recording without speech has a blank transcript.
  const text = answer.data.text.trim() === '' ? '' : answer.data.text
  const language = languageCode(answer.data.language_code)
  const words = wantsWords(input) ? (text === '' ? [] : readWords(answer.data.words, input)) : undefined
  if (words === 'malformed') return unknownOutcome('HTTP 200 without usable words')
  const transcript: Transcript = {
    text,
    ...(language === undefined ? {} : { language }),
    ...(probability === undefined || probability === null
      ? {}
      : { languageProbabilityMillionths: Math.round(Math.min(1, Math.max(0, probability)) * 1_000_000) }),
    ...(words === undefined ? {} : { words }),
  }
  const { transcription_id: id } = answer.data
  return { outcome: 'transcribed', transcript, ...(typeof id === 'string' ? { vendorRequestId: id } : {}) }
}

/** Reads the words. Paid details must be present: at least one time, and characters when requested. */
function readWords(words: unknown, input: TranscriptionInput): TranscribedWord[] | 'malformed' {
  const parsed = wordsWire.safeParse(words)
  if (!parsed.success || !parsed.data.some((word) => typeof (word.start ?? word.end) === 'number')) return 'malformed'
  const wantsCharacters = input.timestamps === 'character'
  if (wantsCharacters && !parsed.data.some((word) => (word.characters ?? []).length > 0)) return 'malformed'
  return withTimes(parsed.data, 0).map(({ item, ...times }) => ({
    text: item.text,
    type: item.type,
    ...times,
    ...(input.diarize && typeof item.speaker_id === 'string' ? { speaker: item.speaker_id } : {}),
    ...(wantsCharacters ? { characters: readCharacters(item, times.startSeconds) } : {}),
  }))
}

function readCharacters(word: WordWire, earliestSeconds: number): TranscribedCharacter[] {
  return withTimes(word.characters ?? [], earliestSeconds).map(({ item, ...times }) => ({ text: item.text, ...times }))
}

interface Timed {
  readonly start?: number | null | undefined
  readonly end?: number | null | undefined
}

/**
 * Fills in times that the vendor left null. A missing start becomes the previous end and a missing end the next start,
 * which are the tightest bounds in the answer.
 */
function withTimes<Item extends Timed>(items: readonly Item[], earliestSeconds: number) {
  let previousEndSeconds = earliestSeconds
  return items.map((item, index) => {
    const startSeconds = item.start ?? previousEndSeconds
    const endSeconds = Math.max(startSeconds, item.end ?? items[index + 1]?.start ?? startSeconds)
    previousEndSeconds = endSeconds
    return { item, startSeconds, endSeconds }
  })
}
