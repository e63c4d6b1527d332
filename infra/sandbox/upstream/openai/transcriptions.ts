import { type Heard, hear } from '../hearing/hear.ts'
import type { VendorAnswer, VendorRequest, VendorRoute } from '../vendor-route.ts'
import { invalidRequest, refusal, refuseKey } from './answers.ts'

/**
 * `POST /v1/audio/transcriptions` as documented by OpenAI for whisper-1, in `json` and `verbose_json`. It
 * transcribes like the other vendors, without speakers and audio events.
 *
 * Source: developers.openai.com/api/reference, Create transcription; npm package `openai` 7,
 * resources/audio/transcriptions.d.ts; the refusal of a short file is the vendor's, as UpstreetAI/usdk#637 quotes it.
 */
export const transcriptionsRoute: VendorRoute = {
  path: '/v1/audio/transcriptions',
  refuseKey,
  answer: (request) => refuseSize(request) ?? transcribe(request),
  emptied: (body) => ({ ...body, text: null, words: null }),
}

/** The vendor counts the whole form, so that a file of exactly 25 MiB is refused. */
const MAXIMUM_BODY_BYTES = 26_214_400

function refuseSize({ body: { byteLength } }: VendorRequest): VendorAnswer | undefined {
  if (byteLength <= MAXIMUM_BODY_BYTES) return undefined
  const message = `413: Maximum content size limit (${MAXIMUM_BODY_BYTES}) exceeded (${byteLength} bytes read)`
  return refusal(413, 'server_error', null, message)
}

const LEAST_SECONDS = 0.1

async function transcribe({ form, audio }: VendorRequest): Promise<VendorAnswer> {
  if (form === undefined) return invalidRequest('The body is not a multipart form.')
  if (typeof form.get('model') !== 'string') return invalidRequest('You must provide a model parameter.', 'model')
  const format = form.get('response_format') ?? 'json'
  if (format !== 'json' && format !== 'verbose_json') return invalidRequest('Unsupported format.', 'response_format')
  const granularities = form.getAll('timestamp_granularities[]')
  if (granularities.length > 0 && format !== 'verbose_json') {
    return invalidRequest('timestamp_granularities needs verbose_json.', 'timestamp_granularities')
  }
  if (audio === undefined) return invalidRequest('There is no file.', 'file')
  const heard = await hear(audio, { tagAudioEvents: false })
  if (heard === undefined) return invalidRequest('The audio file could not be decoded.', 'file')
  if (heard.durationSeconds < LEAST_SECONDS) {
    const message = `Audio file is too short. Minimum audio length is ${LEAST_SECONDS} seconds.`
    return invalidRequest(message, 'file', 'audio_too_short')
  }
  const language = form.get('language')
  if (language !== null && !(typeof language === 'string' && /^[a-z]{2}$/.test(language))) {
    const message = `Invalid language '${typeof language === 'string' ? language : 'file'}'. Language parameter must be specified in ISO-639-1 format.`
    return invalidRequest(message, 'language', 'invalid_language_format')
  }
  const body = format === 'json' ? { text: textOf(heard) } : verbose(heard, language, granularities.includes('word'))
  return { status: 200, accepted: true, body }
}

function textOf({ items }: Heard): string {
  return items.map(({ text }) => text).join('')
}

/** The vendor reports a detected language by its English name; only the samples' languages are known. */
const LANGUAGE_NAMES: Readonly<Record<string, string>> = {
  eng: 'english',
  deu: 'german',
  ita: 'italian',
  fra: 'french',
  spa: 'spanish',
}

function verbose(heard: Heard, given: File | string | null, wantsWords: boolean) {
  const words = heard.items.filter(({ type }) => type === 'word')
  return {
    task: 'transcribe',
    language: typeof given === 'string' ? given : (LANGUAGE_NAMES[heard.language] ?? heard.language),
    duration: heard.durationSeconds,
    text: textOf(heard),
    usage: { type: 'duration', seconds: Math.ceil(heard.durationSeconds) },
    ...(wantsWords
      ? {
          words: words.map(({ text, startSeconds, endSeconds }) => ({
            word: text,
            start: startSeconds,
            end: endSeconds,
          })),
        }
      : {}),
  }
}
