import { type Ear, type Heard, type HeardItem, hear } from '../hearing/hear.ts'
import { ok, textFields, type VendorAnswer, type VendorRequest, type VendorRoute } from '../vendor-route.ts'
import { invalid, invalidField, refuseKey } from './refusals.ts'

const MODELS: ReadonlySet<string> = new Set(['scribe_v1', 'scribe_v1_experimental', 'scribe_v2'])

/**
 * Creates `POST /v1/speech-to-text` as documented by ElevenLabs, for one uploaded file and one channel, with its names,
 * defaults (events tagged, word times, no diarization) and answer shape. The wording of refusals is our own.
 *
 * Source: elevenlabs.io/docs/api-reference/speech-to-text/convert, and the same texts in the vendor's package
 * `@elevenlabs/elevenlabs-js` 2.73.0 (BodySpeechToTextV1SpeechToTextPost.d.ts, SpeechToTextWordResponseModel.d.ts), read on
 * 2026-11-24:
 * - `diarize`: "Whether to annotate which speaker is currently talking in the uploaded file."
 * - `num_speakers`: "The maximum amount of speakers talking in the uploaded file. […] The maximum amount of speakers that
 *   can be predicted is 32. Defaults to null, in this case the amount of speakers is set to the maximum value the model
 *   supports."
 * - `tag_audio_events`: "Whether to tag audio events like (laughter), (footsteps), etc. in the transcription."
 * - `file`: "The file to transcribe (100ms minimum audio length)." Which error a shorter one gets is not documented.
 * - `speaker_id`, optional: "Unique identifier for the speaker of this word."
 */
export function createSpeechToTextRoute(ear: Ear): VendorRoute {
  return { path: '/v1/speech-to-text', refuseKey, answer: (request) => transcribe(request, ear) }
}

const LEAST_SECONDS = 0.1

async function transcribe({ form, audio, digest, lacks, signal }: VendorRequest, ear: Ear): Promise<VendorAnswer> {
  if (form === undefined) return invalid('invalid_request', 'The body is not a multipart form.')
  const options = readOptions(form)
  if ('status' in options) return options
  if (audio === undefined) return invalidField('file', 'missing', 'Field required')
  const heard = await hear(audio, ear, { ...options, signal })
  if (heard === undefined) return invalid('invalid_content', 'The upload could not be read as audio.')
  if (heard.durationSeconds < LEAST_SECONDS) return invalid('invalid_parameters', 'The audio is shorter than 100ms.')
  const output = lacks === 'output' ? { text: null, words: null } : {}
  return ok({ ...transcriptBody(heard, options), ...output, transcription_id: digest.slice(0, 20) })
}

interface Options {
  readonly language: string | undefined
  readonly diarize: boolean
  readonly granularity: string
  readonly tagAudioEvents: boolean
  readonly maximumSpeakers: number
}

function readOptions(form: FormData): Options | VendorAnswer {
  const {
    model_id: model,
    timestamps_granularity: granularity = 'word',
    diarize = 'false',
    tag_audio_events = 'true',
    num_speakers: speakers = '32',
    language_code: language,
  } = textFields(form)
  if (model === undefined) return invalidField('model_id', 'missing', 'Field required')
  if (!MODELS.has(model)) return invalid('invalid_parameters', `'${model}' is not a transcription model.`)
  if (!['none', 'word', 'character'].includes(granularity)) {
    const message = "Input should be 'none', 'word' or 'character'"
    return invalidField('timestamps_granularity', 'literal_error', message, granularity)
  }
  for (const [name, value] of Object.entries({ diarize, tag_audio_events }))
    if (value !== 'true' && value !== 'false')
      return invalidField(name, 'bool_parsing', 'Input should be a boolean', value)
  if (!(/^\d{1,2}$/.test(speakers) && Number(speakers) >= 1 && Number(speakers) <= 32))
    return invalidField('num_speakers', 'int_range', 'Input should be between 1 and 32', speakers)
  if (language !== undefined && !/^[A-Za-z]{2,3}$/.test(language))
    return invalid('unsupported_language', `'${language}' is not a supported language.`)
  return {
    language,
    granularity,
    diarize: diarize === 'true',
    tagAudioEvents: tag_audio_events === 'true',
    maximumSpeakers: Number(speakers),
  }
}

function transcriptBody({ language, text, items }: Heard, options: Options) {
  return {
    language_code: options.language ?? language,
    language_probability: options.language === undefined ? 0.987_654_32 : 1,
    text,
    words: items.map((item) => wordBody(item, options)),
  }
}

function wordBody(item: HeardItem, { diarize, granularity }: Options) {
  const timed = granularity !== 'none'
  return {
    text: item.text,
    start: timed ? item.startSeconds : null,
    end: timed ? item.endSeconds : null,
    type: item.type,
    speaker_id: diarize ? `speaker_${item.speaker}` : null,
    logprob: item.type === 'word' ? -0.012_5 : 0,
    characters: granularity === 'character' ? charactersOf(item) : null,
  }
}

function charactersOf({ text, startSeconds, endSeconds }: HeardItem) {
  const characters = Array.from(text)
  const at = (index: number) =>
    Math.round((startSeconds + ((endSeconds - startSeconds) * index) / characters.length) * 1000) / 1000
  return characters.map((character, index) => ({ text: character, start: at(index), end: at(index + 1) }))
}
