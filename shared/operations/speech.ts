import { z } from 'zod'
import { type Catalog, findModel } from '#shared/catalog/catalog.ts'
import { AppError } from '#shared/errors/app-error.ts'
import { type AtomicAmount, atomicAmount, atomicFromDollars } from '#shared/money/atomic-amount.ts'
import { clamp } from '#shared/money/rounding.ts'
import { type PricedQuantity, roundedPrice } from '#shared/pricing/calculation.ts'
import type { Quote } from '#shared/pricing/quote.ts'
import { refuseAboveBound } from './maximum-price.ts'
import type { Operation } from './operation.ts'
import { countCodePoints, refuseUnstorableText, textOfCodePoints } from './request-text.ts'

const MODEL = 'speechvendor/flash-v2.5'
const CHARACTERS_OF_A_PRICE = 1000n
const THOUSANDTHS = 1000

/** The public aliases of the specification; which of them are on offer is the catalog's matter. */
const voiceSchema = z.enum([
  'darian',
  'talia',
  'elara',
  'baxter',
  'eldrin',
  'kellan',
  'elowen',
  'kaelen',
  'lawrence',
  'alicia',
  'maisie',
  'warren',
  'jade',
  'eddie',
  'caleb',
  'sawyer',
  'finley',
  'florence',
  'wyatt',
  'bella',
])

/** Vendors bill for silence but return no audio for it. */
const SPEAKABLE = /[\p{L}\p{N}]/u

/**
 * Whether the decimal that the caller wrote has at most three places. A quotient of integers is the double nearest to
 * the decimal, and so is what JSON parsing made of it, hence the two are equal exactly when the decimals are.
 */
function isWholeThousandths(speed: number): boolean {
  return Math.round(speed * THOUSANDTHS) / THOUSANDTHS === speed
}

const bodySchema = z
  .strictObject({
    model: z.literal(MODEL),
    input: textOfCodePoints(1, 2000).refine((input) => SPEAKABLE.test(input), {
      error: 'must hold at least one letter or number to speak',
    }),
    voice: voiceSchema.default('darian'),
    response_format: z.literal('mp3').default('mp3'),
    speed: z
      .number()
      .min(0.7)
      .max(1.2)
      .refine(isWholeThousandths, { error: 'must be a multiple of 0.001' })
      .meta({ multipleOf: 0.001 })
      .default(1),
  })
  .check(refuseUnstorableText)

const effectiveRequestSchema = z.strictObject({
  operation: z.literal('createSpeech'),
  model: z.string(),
  input: z.string(),
  voice: z.string(),
  response_format: z.literal('mp3'),
  /** 1000 is the natural speed; an integer, so that equal speeds are equal text. */
  speed_thousandths: z.int().min(700).max(1200),
})

const termsSchema = z.strictObject({
  price_per_thousand_characters_usd: z.string(),
  minimum_charge_usd: z.string(),
  maximum_charge_usd: z.string(),
  /** Code points of this request's input: no more is charged. */
  maximum_characters: z.int().positive(),
})

const usageSchema = z.strictObject({ input_characters: z.int().min(1) })

const resultSchema = z.strictObject({
  id: z.string(),
  created: z.int(),
  model: z.literal(MODEL),
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

export type SpeechBody = z.infer<typeof bodySchema>
export type EffectiveSpeech = z.infer<typeof effectiveRequestSchema>
export type SpeechTerms = z.infer<typeof termsSchema>
export type SpeechUsage = z.infer<typeof usageSchema>
export type SpeechResult = z.infer<typeof resultSchema>

function effectiveRequest({ speed, ...options }: SpeechBody): EffectiveSpeech {
  return { operation: 'createSpeech', ...options, speed_thousandths: Math.round(speed * THOUSANDTHS) }
}

/**
 * Throws `invalid_field` (400) for a voice or a length that the catalog does not offer, though the interface knows it, and
 * `maximum_price_exceeded` (400).
 */
function quote(effective: EffectiveSpeech, catalog: Catalog): Quote<SpeechTerms> {
  const model = findModel(catalog, 'text_to_speech', effective.model)
  if (!model) throw new Error(`the catalog has no model ${effective.model}`)
  if (!catalog.voices.some(({ id }) => id === effective.voice))
    throw new AppError('invalid_field', { param: 'voice', message: `voice ${effective.voice} is not on offer now.` })
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

function charge(usage: SpeechUsage, terms: SpeechTerms): AtomicAmount {
  const price = roundedPrice(pricedQuantities(usage, terms))
  const [minimum, maximum] = [atomicFromDollars(terms.minimum_charge_usd), atomicFromDollars(terms.maximum_charge_usd)]
  return atomicAmount(clamp(price, minimum, maximum))
}

function pricedQuantities(usage: SpeechUsage, terms: SpeechTerms): readonly PricedQuantity[] {
  return [
    {
      usage: 'input_characters',
      measured: usage.input_characters,
      atMost: terms.maximum_characters,
      unit: 'character',
      priceUsd: terms.price_per_thousand_characters_usd,
      units: CHARACTERS_OF_A_PRICE,
    },
  ]
}

export interface SpeechResultFacts {
  /** Without the prefix. */
  readonly id: string
  /** Unix seconds. */
  readonly created: number
  readonly url: string
  /** Both measured from the audio received. */
  readonly bytes: number
  readonly durationMs: number
  /** Code points of the input. */
  readonly characters: number
  /** 24 hours after generation. */
  readonly expiresAt: Date
}

/** The public answer of `POST /v1/audio/speech`. */
export function speechResult(facts: SpeechResultFacts): SpeechResult {
  return {
    id: `speech-${facts.id}`,
    created: facts.created,
    model: MODEL,
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

/** Text to speech as one MP3 (specification, POST /v1/audio/speech). */
export const speech: Operation<SpeechBody, EffectiveSpeech, SpeechTerms, SpeechUsage, SpeechResult> = {
  id: 'createSpeech',
  path: '/v1/audio/speech',
  summary: 'Speak a text',
  family: 'openai',
  category: 'text_to_speech',
  upload: null,
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
