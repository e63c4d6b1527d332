import { z } from 'zod'
import { type Catalog, findModel } from '#shared/catalog/catalog.ts'
import { type AtomicAmount, atomicAmount, atomicFromDollars } from '#shared/money/atomic-amount.ts'
import { clamp } from '#shared/money/rounding.ts'
import { type PricedQuantity, roundedPrice } from '#shared/pricing/calculation.ts'
import type { Quote } from '#shared/pricing/quote.ts'
import type { MeasuredAudio, Operation } from './operation.ts'

const MILLISECONDS_PER_HOUR = 3_600_000n

/** Longer than any BCP 47 tag in use; the provider decides which languages it knows. */
const MAXIMUM_LANGUAGE_LENGTH = 64

const languageSchema = z
  .string()
  .refine((language) => Array.from(language).length <= MAXIMUM_LANGUAGE_LENGTH, {
    error: `must have at most ${MAXIMUM_LANGUAGE_LENGTH} characters`,
  })
  .refine((language) => language.isWellFormed(), { error: 'must be valid Unicode without lone surrogates' })

const bodySchema = z.strictObject({
  model: z.literal('speechvendor/scribe-v2'),
  file_format: z.literal('other').default('other'),
  language: languageSchema.optional(),
  diarize: z.boolean().default(false),
  // Bounds first, so that their message wins over the one on unsafe integers.
  num_speakers: z.number().min(1).max(32).int().optional(),
  timestamps: z.enum(['none', 'word', 'character']).default('none'),
  tag_audio_events: z.boolean().default(false),
  response_format: z.enum(['json', 'verbose_json']).default('json'),
})

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

const termsSchema = z.strictObject({
  price_per_audio_hour_usd: z.string(),
  minimum_charge_usd: z.string(),
  maximum_charge_usd: z.string(),
})

const usageSchema = z.strictObject({ input_audio_ms: z.int().positive() })

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
  text: z.string().min(1),
  language: z.string().optional(),
  language_probability_millionths: z.int().min(0).max(1_000_000).optional(),
  usage: usageSchema,
  words: z.array(wordSchema).optional(),
  task: z.literal('transcribe').optional(),
  duration: z.number().positive().optional(),
})

export type TranscriptionBody = z.infer<typeof bodySchema>
export type EffectiveTranscription = z.infer<typeof effectiveRequestSchema>
export type TranscriptionTerms = z.infer<typeof termsSchema>
export type TranscriptionUsage = z.infer<typeof usageSchema>
export type TranscriptionResult = z.infer<typeof resultSchema>

function effectiveRequest(options: TranscriptionBody, audio: MeasuredAudio | null): EffectiveTranscription {
  if (!audio) throw new Error('a transcription has an upload')
  const { language, ...rest } = options
  return {
    operation: 'createTranscription',
    ...rest,
    // An empty language is how form clients say "not chosen"; it means the same as leaving the field out.
    ...(language ? { language } : {}),
    audio: { sha256: audio.sha256, bytes: audio.bytes, duration_ms: audio.durationMs },
  }
}

function quote(effective: EffectiveTranscription, catalog: Catalog): Quote<TranscriptionTerms> {
  const model = findModel(catalog, 'speech_to_text', effective.model)
  if (!model) throw new Error(`the catalog has no model ${effective.model}`)
  const terms = {
    price_per_audio_hour_usd: model.pricePerAudioHourUsd,
    minimum_charge_usd: model.minimumChargeUsd,
    maximum_charge_usd: model.maximumChargeUsd,
  }
  // The duration is measured before the quote and does not change, so the maximum is the charge itself.
  const quotedMaximum = charge({ input_audio_ms: effective.audio.duration_ms }, terms)
  return { quotedMaximum, catalogVersion: catalog.version, terms }
}

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

function charge(usage: TranscriptionUsage, terms: TranscriptionTerms): AtomicAmount {
  const price = roundedPrice(pricedQuantities(usage, terms))
  const [minimum, maximum] = [atomicFromDollars(terms.minimum_charge_usd), atomicFromDollars(terms.maximum_charge_usd)]
  return atomicAmount(clamp(price, minimum, maximum))
}

/** Speech to text over one MP3 (specification, POST /v1/audio/transcriptions). */
export const transcriptions: Operation<
  TranscriptionBody,
  EffectiveTranscription,
  TranscriptionTerms,
  TranscriptionUsage,
  TranscriptionResult
> = {
  id: 'createTranscription',
  path: '/v1/audio/transcriptions',
  summary: 'Transcribe one MP3',
  family: 'openai',
  category: 'speech_to_text',
  upload: {
    jsonField: 'audio_base64',
    multipartField: 'file',
    maximumBase64Length: 34_952_536,
    maximumBytes: 26_214_400,
    formTypes: { diarize: 'boolean', tag_audio_events: 'boolean', num_speakers: 'integer' },
  },
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
}
