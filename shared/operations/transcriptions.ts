import { z } from 'zod'
import { type Catalog, findModel } from '#shared/catalog/catalog.ts'
import { transcriptionModel } from '#shared/catalog/published-models.ts'
import { boundedCharge, chargeBounds } from '#shared/pricing/bounded-charge.ts'
import type { PricedQuantity } from '#shared/pricing/calculation.ts'
import type { Quote } from '#shared/pricing/quote.ts'
import { defineOperation, EXAMPLE_CREATED, type MeasuredAudio } from './operation.ts'
import { requireTranscriptionCarrier } from './vendors/carriers.ts'

const LEAVE_OUT = 'Leave it out'

const TIMES = 'For times of words, send timestamps "word"; words then has the start and end of each in seconds.'
const AUDIO = 'Send the MP3 itself: its Base64 in audio_base64, or in a form the part "file". URLs are not fetched.'
const SPEAKERS = `${LEAVE_OUT}; diarize true labels each word with its speaker.`

/**
 * What to send instead of options that clients of other transcription services send, as the last sentence of the error
 * about the field.
 */
const TRANSCRIPTION_ADVICE: Readonly<Record<string, string>> = {
  response_format:
    'The plain text is text of the JSON answer; for subtitles (SRT, VTT), send timestamps "word" and write a cue for every few words, from the first one’s start to the last one’s end, as the client command "farebox transcribe" does.',
  timestamp_granularities: TIMES,
  'timestamp_granularities[]': TIMES,
  timestamps_granularity: TIMES,
  stream: `${LEAVE_OUT}: the transcript is sent as a whole.`,
  chunking_strategy: `${LEAVE_OUT}: the audio is transcribed as a whole.`,
  prompt: `${LEAVE_OUT}: the model takes no prompt.`,
  temperature: `${LEAVE_OUT}: the model has no temperature.`,
  include: `${LEAVE_OUT}: log probabilities are not offered.`,
  'include[]': `${LEAVE_OUT}: log probabilities are not offered.`,
  known_speaker_names: SPEAKERS,
  'known_speaker_names[]': SPEAKERS,
  known_speaker_references: SPEAKERS,
  'known_speaker_references[]': SPEAKERS,
  model_id: 'Send the model in model.',
  language_code: 'Send the language in language.',
  file_format: 'Leave it out; the audio is an MP3.',
  file: 'In JSON, send the MP3 as Base64 in audio_base64; file is the name of the part in a form.',
  audio_base64: 'In a form, send the MP3 itself as the file part "file".',
  audio: AUDIO,
  audio_url: AUDIO,
  file_url: AUDIO,
  url: AUDIO,
  cloud_storage_url: AUDIO,
}

const MILLISECONDS_PER_HOUR = 3_600_000n

/** Longer than any BCP 47 tag in use; the provider decides which languages it supports. */
const MAXIMUM_LANGUAGE_LENGTH = 64

/** No language has one; a vendor would refuse it after the payment. */
const CONTROL_CHARACTER = /\p{Cc}/u

const languageSchema = z
  .string()
  .refine((language) => Array.from(language).length <= MAXIMUM_LANGUAGE_LENGTH, {
    error: `must have at most ${MAXIMUM_LANGUAGE_LENGTH} characters`,
  })
  .refine((language) => language.isWellFormed(), { error: 'must be valid Unicode without lone surrogates' })
  .refine((language) => !CONTROL_CHARACTER.test(language), { error: 'must not contain control characters' })
  .meta({
    maxLength: MAXIMUM_LANGUAGE_LENGTH,
    pattern: '^\\P{Cc}*$',
    description:
      'The language of the audio, such as en or eng; by default it is detected. The provider decides which ones it knows.',
  })

const bodySchema = z.strictObject({
  model: z.literal(transcriptionModel.id),
  file_format: z.literal('other').default('other'),
  language: languageSchema.optional(),
  diarize: z.boolean().default(false),
  // Bounds first, so that their message wins over the one about unsafe integers.
  num_speakers: z.number().min(1).max(32).int().optional(),
  timestamps: z.enum(['none', 'word', 'character']).default('none'),
  tag_audio_events: z.boolean().default(false),
  response_format: z.enum(['json', 'verbose_json']).default('json'),
})

type TranscriptionBody = z.infer<typeof bodySchema>

const effectiveRequestSchema = z.strictObject({
  operation: z.literal('createTranscription'),
  model: z.string(),
  audio: z.strictObject({
    sha256: z.hex().length(64),
    bytes: z.int().positive(),
    duration_ms: z.int().positive(),
  }),
  file_format: z.literal('other'),
  language: z.string().optional(),
  diarize: z.boolean(),
  num_speakers: z.int().optional(),
  timestamps: z.enum(['none', 'word', 'character']),
  tag_audio_events: z.boolean(),
  response_format: z.enum(['json', 'verbose_json']),
})

export type EffectiveTranscription = z.infer<typeof effectiveRequestSchema>

function effectiveRequest(options: TranscriptionBody, audio: MeasuredAudio | null): EffectiveTranscription {
  if (!audio) throw new Error('a transcription request needs measured audio')
  const { language, ...rest } = options
  return {
    operation: 'createTranscription',
    ...rest,
    // Form clients send an empty language for "not chosen"; it means the same as leaving the field out.
    ...(language ? { language } : {}),
    audio: { sha256: audio.sha256, bytes: audio.bytes, duration_ms: audio.durationMs },
  }
}

const termsSchema = z.strictObject({
  price_per_audio_hour_usd: z.string(),
  ...chargeBounds,
})

export type TranscriptionTerms = z.infer<typeof termsSchema>

/** Throws `request_unsupported` (400) for an option that no deployment of the model takes. */
function quote(effective: EffectiveTranscription, catalog: Catalog): Quote<TranscriptionTerms> {
  const model = findModel(catalog, 'speech_to_text', effective.model)
  if (!model) throw new Error(`the catalog has no model ${effective.model}`)
  requireTranscriptionCarrier(catalog, effective.model, effective)
  const terms = {
    price_per_audio_hour_usd: model.pricePerAudioHourUsd,
    minimum_charge_usd: model.minimumChargeUsd,
    maximum_charge_usd: model.maximumChargeUsd,
  }
  // The duration is measured before the quote and does not change, so the maximum is the charge itself.
  const quotedMaximum = charge({ input_audio_ms: effective.audio.duration_ms }, terms)
  return { quotedMaximum, catalogVersion: catalog.version, terms }
}

const usageSchema = z.strictObject({ input_audio_ms: z.int().positive() })

type TranscriptionUsage = z.infer<typeof usageSchema>

function pricedQuantities(usage: TranscriptionUsage, terms: TranscriptionTerms): readonly PricedQuantity[] {
  return [
    {
      usage: 'input_audio_ms',
      measured: usage.input_audio_ms,
      atMost: null,
      unit: 'millisecond',
      priceUsd: terms.price_per_audio_hour_usd,
      units: MILLISECONDS_PER_HOUR,
    },
  ]
}

function charge(usage: TranscriptionUsage, terms: TranscriptionTerms) {
  return boundedCharge(pricedQuantities(usage, terms), terms)
}

const wordSchema = z.strictObject({
  word: z.string(),
  start: z.number().nonnegative(),
  end: z.number().nonnegative(),
  type: z.enum(['word', 'spacing', 'audio_event']),
  speaker: z.string().optional(),
  characters: z
    .array(z.strictObject({ text: z.string(), start: z.number().nonnegative(), end: z.number().nonnegative() }))
    .optional(),
})

const resultSchema = z.strictObject({
  id: z.string(),
  created: z.int(),
  model: z.string(),
  text: z.string(),
  language: z.string().optional(),
  language_probability_millionths: z.int().min(0).max(1_000_000).optional(),
  usage: usageSchema,
  words: z.array(wordSchema).optional(),
  task: z.literal('transcribe').optional(),
  duration: z.number().positive().optional(),
})

export type TranscriptionResult = z.infer<typeof resultSchema>

/**
 * 24 ms of silence in the 24 bytes of the smallest MP3 frame, as Base64: MPEG 2, layer III, 8 kbit/s, 24 kHz, mono.
 * Examples must be short enough for a header.
 */
const SHORTEST_MP3_FRAME = '//MUwAAAAAAAAAAAAAAAAAAAAAAAAAAA'
/** 168 ms. */
const EXAMPLE_FRAMES = 7

/** Speech to text, of one MP3. */
export const transcriptions = defineOperation({
  id: 'createTranscription',
  path: '/v1/audio/transcriptions',
  compatibility: 'audio_transcriptions',
  summary: 'Transcribe one MP3',
  description:
    'Transcribes one MP3, sent as Base64 in JSON or as a file in a form. The audio is decoded and measured before the price is quoted, so the unpaid request and its signed retry must carry the identical audio and options. A third-party speech provider processes the audio in its standard retained mode and may keep it; deleting our staged copy does not delete theirs. The transcript is stored here for replays, seven days by default. Do not submit sensitive or regulated audio.',
  requestExample: { model: transcriptionModel.id, audio_base64: SHORTEST_MP3_FRAME.repeat(EXAMPLE_FRAMES) },
  resultExample: {
    id: 'transcription_1',
    created: EXAMPLE_CREATED,
    model: transcriptionModel.id,
    text: 'The last tram leaves at midnight.',
    language: 'eng',
    language_probability_millionths: 998_000,
    usage: { input_audio_ms: 2102 },
  },
  family: 'openai',
  category: 'speech_to_text',
  queue: 'transcriptions',
  bodyLimitBytes: null,
  upload: {
    jsonField: 'audio_base64',
    multipartField: 'file',
    maximumBase64Length: 34_952_536,
    maximumBytes: transcriptionModel.maximumAudioBytes,
    minimumDurationMs: transcriptionModel.minimumAudioDurationMs,
    maximumDurationMs: transcriptionModel.maximumAudioDurationMs,
    formTypes: { diarize: 'boolean', tag_audio_events: 'boolean', num_speakers: 'integer' },
    advice: TRANSCRIPTION_ADVICE,
  },
  hostsMedia: false,
  mediaResponse: null,
  bodySchema,
  effectiveRequestSchema,
  termsSchema,
  usageSchema,
  resultSchema,
  effectiveRequest,
  publicModel: (effective) => effective.model,
  quote,
  pricedQuantities,
  charge,
})
