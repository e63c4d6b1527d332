import { z } from 'zod'
import { type Catalog, findModel } from '#shared/catalog/catalog.ts'
import { speechModel } from '#shared/catalog/published-models.ts'
import { publishedVoices } from '#shared/catalog/voices.ts'
import { AppError } from '#shared/errors/app-error.ts'
import { boundedCharge, chargeBounds } from '#shared/pricing/bounded-charge.ts'
import { type PricedQuantity, roundedPrice } from '#shared/pricing/calculation.ts'
import type { Quote } from '#shared/pricing/quote.ts'
import { refuseAboveBound } from './maximum-price.ts'
import { defineOperation, EXAMPLE_CREATED, type MeasuredAudio } from './operation.ts'
import { countCodePoints, refuseUnstorable, SHORT_BODY_BYTES, textOfCodePoints } from './request-text.ts'

const CHARACTERS_PER_PRICE = 1000n
const THOUSANDTHS = 1000

/** Vendors bill for silence but return no audio for it. */
const SPEAKABLE = /[\p{L}\p{N}]/u

const bodySchema = z
  .strictObject({
    model: z.literal(speechModel.id),
    input: textOfCodePoints(1, speechModel.maximumCharacters)
      .refine((input) => SPEAKABLE.test(input), { error: 'must contain at least one letter or number' })
      .meta({
        pattern: SPEAKABLE.source,
        description: 'The text to speak. At least one letter or number: vendors return no audio for anything else.',
      }),
    // Every published voice; the catalog decides which of them are available, and which one is the default.
    voice: z
      .enum(publishedVoices.map(({ id }) => id))
      .meta({ description: 'Only the voices that GET /v1/audio/voices lists are available.' })
      .optional(),
    response_format: z.literal('mp3').default('mp3'),
    speed: z
      .number()
      .min(0.7)
      .max(1.2)
      .refine(isWholeThousandths, { error: 'must be a multiple of 0.001' })
      .meta({ multipleOf: 0.001 })
      .default(1),
  })
  .check(refuseUnstorable)

type SpeechBody = z.infer<typeof bodySchema>

/**
 * Returns whether the caller's decimal has at most three places. A quotient of integers is the double nearest to the
 * decimal, and so is the result of parsing the JSON, so the two are equal exactly when the decimals are.
 */
function isWholeThousandths(speed: number): boolean {
  return Math.round(speed * THOUSANDTHS) / THOUSANDTHS === speed
}

const effectiveRequestSchema = z.strictObject({
  operation: z.literal('createSpeech'),
  model: z.string(),
  input: z.string(),
  voice: z.string(),
  response_format: z.literal('mp3'),
  /** 1000 is the natural speed; an integer, so that equal speeds have equal text. */
  speed_thousandths: z.int().min(700).max(1200),
})

type EffectiveSpeech = z.infer<typeof effectiveRequestSchema>

/** What a vendor is asked for. */
export type SpokenRequest = ReturnType<typeof spokenRequest>

/**
 * Returns what a vendor is asked for: text, its own voice, the speed (0.7 to 1.2 in steps of 0.001), and each further field
 * of the effective request as it was sent, which an adapter sends or refuses.
 */
export function spokenRequest(
  {
    operation: _operation,
    model: _model,
    response_format: _format,
    voice: _alias,
    input: text,
    speed_thousandths: speed,
    ...options
  }: EffectiveSpeech,
  voice: string,
) {
  return { ...options, text, voice, speed: speed / THOUSANDTHS }
}

/** Returns the default voice that the voices and pricing lists publish; the standard one without such a model. */
function defaultVoice(modelId: string, catalog: Catalog): string {
  return (findModel(catalog, 'text_to_speech', modelId) ?? speechModel).defaultVoice
}

function effectiveRequest(
  { speed, voice, ...options }: SpeechBody,
  _: MeasuredAudio | null,
  catalog: Catalog,
): EffectiveSpeech {
  return {
    operation: 'createSpeech',
    ...options,
    voice: voice ?? defaultVoice(options.model, catalog),
    speed_thousandths: Math.round(speed * THOUSANDTHS),
  }
}

const termsSchema = z.strictObject({
  price_per_thousand_characters_usd: z.string(),
  ...chargeBounds,
  /** Code points of this request's input: no more is charged. */
  maximum_characters: z.int().positive(),
})

type SpeechTerms = z.infer<typeof termsSchema>

/**
 * Throws `invalid_field` (400) for a voice or a length that the schema accepts but the catalog does not offer, and
 * `maximum_price_exceeded` (400).
 */
function quote(effective: EffectiveSpeech, catalog: Catalog): Quote<SpeechTerms> {
  const model = findModel(catalog, 'text_to_speech', effective.model)
  if (!model) throw new Error(`the catalog has no model ${effective.model}`)
  if (!catalog.voices.some(({ id }) => id === effective.voice))
    throw new AppError('invalid_field', {
      param: 'voice',
      message: `voice ${effective.voice} is currently not available; GET /v1/audio/voices lists the voices that are.`,
    })
  const characters = countCodePoints(effective.input)
  if (characters > model.maximumCharacters)
    throw new AppError('invalid_field', {
      param: 'input',
      message: `input must have at most ${model.maximumCharacters} characters for ${model.id}; got ${characters}.`,
    })
  const terms = {
    price_per_thousand_characters_usd: model.pricePerThousandCharactersUsd,
    minimum_charge_usd: model.minimumChargeUsd,
    maximum_charge_usd: model.maximumChargeUsd,
    maximum_characters: characters,
  }
  const price = roundedPrice(pricedQuantities({ input_characters: characters }, terms))
  refuseAboveBound(price, terms.maximum_charge_usd, 'input', 'Shorten the input.')
  // The characters are counted before the quote and do not change, so the maximum is the charge itself.
  return { quotedMaximum: charge({ input_characters: characters }, terms), catalogVersion: catalog.version, terms }
}

const usageSchema = z.strictObject({ input_characters: z.int().min(1) })

type SpeechUsage = z.infer<typeof usageSchema>

function pricedQuantities(usage: SpeechUsage, terms: SpeechTerms): readonly PricedQuantity[] {
  return [
    {
      usage: 'input_characters',
      measured: usage.input_characters,
      atMost: terms.maximum_characters,
      unit: 'character',
      priceUsd: terms.price_per_thousand_characters_usd,
      units: CHARACTERS_PER_PRICE,
    },
  ]
}

function charge(usage: SpeechUsage, terms: SpeechTerms) {
  return boundedCharge(pricedQuantities(usage, terms), terms)
}

const resultSchema = z.strictObject({
  id: z.string(),
  created: z.int(),
  model: z.literal(speechModel.id),
  data: z
    .array(
      z.strictObject({
        url: z.url(),
        format: z.literal('mp3'),
        content_type: z.string(),
        bytes: z.int().min(1),
        duration_ms: z.int().min(1),
        characters: z.int().min(1),
        expires_at: z.iso.datetime(),
        backed_up: z.literal(true),
      }),
    )
    .length(1),
  usage: usageSchema,
})

export type SpeechResult = z.infer<typeof resultSchema>

export interface SpeechResultFacts {
  /** Without the prefix. */
  readonly id: string
  /** Unix seconds. */
  readonly created: number
  readonly url: string
  /** Measured from the received audio, like `durationMs`. */
  readonly bytes: number
  readonly durationMs: number
  /** Code points of the input. */
  readonly characters: number
  /** 24 hours after generation. */
  readonly expiresAt: Date
}

/** Returns the public result of `POST /v1/audio/speech`. */
export function speechResult(facts: SpeechResultFacts): SpeechResult {
  return {
    id: `speech-${facts.id}`,
    created: facts.created,
    model: speechModel.id,
    data: [
      {
        url: facts.url,
        format: 'mp3',
        content_type: 'audio/mpeg',
        bytes: facts.bytes,
        duration_ms: facts.durationMs,
        characters: facts.characters,
        expires_at: facts.expiresAt.toISOString(),
        backed_up: true,
      },
    ],
    usage: { input_characters: facts.characters },
  }
}

/** The fields of a stored result that the MP3 response carries in headers. */
const audioFactsSchema = z.object({
  usage: z.object({ input_characters: z.int() }),
  data: z.tuple([z.object({ url: z.url(), expires_at: z.string(), duration_ms: z.int(), content_type: z.string() })]),
})

function readAudioFacts(result: unknown) {
  const { usage, data } = audioFactsSchema.parse(result)
  const [{ url, expires_at, duration_ms, content_type }] = data
  return {
    url,
    headers: {
      'content-type': content_type,
      'x-media-url': url,
      'x-media-expires-at': expires_at,
      'x-audio-duration-ms': duration_ms.toString(),
      'x-input-characters': usage.input_characters.toString(),
    },
  }
}

/** Text to speech, as one MP3. */
export const speech = defineOperation({
  id: 'createSpeech',
  path: '/v1/audio/speech',
  compatibility: 'audio_speech',
  summary: 'Convert text to speech',
  description:
    'Speaks up to 2000 characters as MP3. The audio is hosted at data[0].url for 24 hours, until data[0].expires_at. An Accept header that prefers audio/mpeg or application/octet-stream to application/json, by quality values, is answered with the MP3 bytes and the result in X-Media-URL, X-Media-Expires-At, X-Audio-Duration-Ms and X-Input-Characters; every other one with JSON.',
  requestExample: { model: speechModel.id, input: 'The last tram leaves at midnight.' },
  resultExample: {
    id: 'speech_1',
    created: EXAMPLE_CREATED,
    model: speechModel.id,
    data: [
      {
        url: 'https://example.com/media/token',
        format: 'mp3',
        content_type: 'audio/mpeg',
        bytes: 33_640,
        duration_ms: 2102,
        characters: 33,
        expires_at: '2026-01-02T00:00:00.000Z',
        backed_up: true,
      },
    ],
    usage: { input_characters: 33 },
  },
  family: 'openai',
  category: 'text_to_speech',
  queue: 'speech',
  bodyLimitBytes: SHORT_BODY_BYTES,
  upload: null,
  hostsMedia: true,
  mediaResponse: {
    contentType: 'audio/mpeg',
    // The OpenAI SDK asks for an octet stream.
    acceptedAs: ['audio/mpeg', 'application/octet-stream'],
    read: readAudioFacts,
  },
  bodySchema,
  catalogDefaults: (catalog) => ({ voice: defaultVoice(speechModel.id, catalog) }),
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
