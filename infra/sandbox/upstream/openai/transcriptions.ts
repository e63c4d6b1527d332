import { type Ear, type Heard, hear } from '../hearing/hear.ts'
import { ok, textFields, type VendorAnswer, type VendorRequest, type VendorRoute } from '../vendor-route.ts'
import { invalidRequest, refusal, refuseKey } from './answers.ts'

/**
 * Creates `POST /v1/audio/transcriptions` as documented by OpenAI for whisper-1, in `json` and `verbose_json`. It
 * transcribes like the other vendors, without speakers and audio events.
 *
 * Source: developers.openai.com/api/reference, Create transcription; npm package `openai` 7,
 * resources/audio/transcriptions.d.ts; the refusal of a short file is the vendor's, as UpstreetAI/usdk#637 quotes it.
 */
export function createTranscriptionsRoute(ear: Ear): VendorRoute {
  return {
    path: '/v1/audio/transcriptions',
    refuseKey,
    answer: (request) => refuseSize(request) ?? transcribe(request, ear),
  }
}

/** The vendor counts the whole form, so that a file of exactly 25 MiB is refused. */
const MAXIMUM_BODY_BYTES = 26_214_400

function refuseSize({ body: { byteLength } }: VendorRequest): VendorAnswer | undefined {
  if (byteLength <= MAXIMUM_BODY_BYTES) return undefined
  const message = `413: Maximum content size limit (${MAXIMUM_BODY_BYTES}) exceeded (${byteLength} bytes read)`
  return refusal(413, 'server_error', null, message)
}

const LEAST_SECONDS = 0.1

async function transcribe({ form, audio, lacks, signal }: VendorRequest, ear: Ear): Promise<VendorAnswer> {
  if (form === undefined) return invalidRequest('The body is not a multipart form.')
  const { language: asked, response_format: format = 'json', model } = textFields(form)
  if (model === undefined) return invalidRequest('You must provide a model parameter.', 'model')
  if (format !== 'json' && format !== 'verbose_json') return invalidRequest('Unsupported format.', 'response_format')
  const granularities = form.getAll('timestamp_granularities[]')
  if (granularities.length > 0 && format !== 'verbose_json')
    return invalidRequest('timestamp_granularities needs verbose_json.', 'timestamp_granularities')
  if (audio === undefined) return invalidRequest('There is no file.', 'file')
  const heard = await hear(audio, ear, { tagAudioEvents: false, signal })
  if (heard === undefined) return invalidRequest('The audio file could not be decoded.', 'file')
  if (heard.durationSeconds < LEAST_SECONDS) {
    const message = `Audio file is too short. Minimum audio length is ${LEAST_SECONDS} seconds.`
    return invalidRequest(message, 'file', 'audio_too_short')
  }
  if (asked !== undefined && !/^[a-z]{2}$/.test(asked)) {
    const message = `Invalid language '${asked}'. Language parameter must be specified in ISO-639-1 format.`
    return invalidRequest(message, 'language', 'invalid_language_format')
  }
  const text = lacks === 'output' ? null : heard.text
  if (format === 'json') return ok({ text })
  const { durationSeconds: duration } = heard
  const language = asked ?? LANGUAGE_NAMES[heard.language] ?? heard.language
  const usage = { type: 'duration', seconds: Math.ceil(duration) }
  const words = granularities.includes('word') && text !== null ? { words: wordsOf(heard) } : {}
  return ok({ task: 'transcribe', language, duration, text, usage, ...words })
}

/** The vendor reports a detected language by its English name; only the samples' languages are known. */
const LANGUAGE_NAMES: Readonly<Record<string, string>> = { eng: 'english', deu: 'german', ita: 'italian' }

function wordsOf({ items }: Heard) {
  const words = items.filter(({ type }) => type === 'word')
  return words.map(({ text: word, startSeconds: start, endSeconds: end }) => ({ word, start, end }))
}
