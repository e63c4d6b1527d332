import { z } from 'zod'
import { atomicFromDollars } from '#shared/money/atomic-amount.ts'
import { type Catalog, createCatalog, type Model, type TextModel, type Voice } from './catalog.ts'

/** Decimal dollars with at most six decimals, as in the published lists. */
const price = z.string().regex(/^\d{1,6}(\.\d{1,6})?$/, { error: 'must be decimal dollars with at most six decimals' })
const limit = z.int().min(1)

const common = {
  enabled: z.boolean().optional(),
  minimum_charge_usd: price.optional(),
  maximum_charge_usd: price.optional(),
}

/** The overridable fields of a model of each category, named as in the pricing and models lists. */
const overrideSchemas = {
  text_generation: z.strictObject({
    ...common,
    input_per_million_tokens: price.optional(),
    cached_input_per_million_tokens: price.optional(),
    cache_write_per_million_tokens: price.optional(),
    output_per_million_tokens: price.optional(),
    context_window: limit.optional(),
    max_output_tokens: limit.optional(),
  }),
  image_generation: z.strictObject({ ...common, price_per_successful_image_usd: price.optional() }),
  text_to_speech: z.strictObject({
    ...common,
    price_per_thousand_characters_usd: price.optional(),
    maximum_characters: limit.optional(),
    default_voice: z.string().optional(),
  }),
  speech_to_text: z.strictObject({
    ...common,
    price_per_audio_hour_usd: price.optional(),
    maximum_audio_duration_ms: limit.optional(),
    maximum_audio_bytes: limit.optional(),
  }),
} satisfies Record<Model['category'], z.ZodType>

/** Maps the file's field names to the catalog's. */
export const CATALOG_FIELDS: Readonly<Record<string, string>> = {
  minimum_charge_usd: 'minimumChargeUsd',
  maximum_charge_usd: 'maximumChargeUsd',
  input_per_million_tokens: 'inputPerMillionTokensUsd',
  cached_input_per_million_tokens: 'cachedInputPerMillionTokensUsd',
  cache_write_per_million_tokens: 'cacheWritePerMillionTokensUsd',
  output_per_million_tokens: 'outputPerMillionTokensUsd',
  context_window: 'contextWindow',
  max_output_tokens: 'maximumOutputTokens',
  price_per_successful_image_usd: 'pricePerImageUsd',
  price_per_thousand_characters_usd: 'pricePerThousandCharactersUsd',
  maximum_characters: 'maximumCharacters',
  default_voice: 'defaultVoice',
  price_per_audio_hour_usd: 'pricePerAudioHourUsd',
  maximum_audio_duration_ms: 'maximumAudioDurationMs',
  maximum_audio_bytes: 'maximumAudioBytes',
}

const voiceOverrideSchema = z.strictObject({ retirement_date: z.iso.date().nullable().optional() })

const fileSchema = z.strictObject({
  models: z.record(z.string(), z.unknown()),
  voices: z.record(z.string(), z.unknown()).optional(),
})

/**
 * Returns `published` with the overrides of an operator's file, whose content is `text`:
 * `{"models": {"<id>": {"enabled": false}, "<id>": {"max_output_tokens": 8192}}, "voices": {"<alias>":
 * {"retirement_date": "2027-01-31"}}}`.
 *
 * Limits and bounds of a call can only be narrowed, because the interface publishes them. Throws an `Error` with the
 * model or voice, the field and the allowed range, which is meant to stop the start of a process.
 */
export function overrideCatalog(published: Catalog, text: string): Catalog {
  return overrideCatalogWith(published, parseJson(text))
}

/** Does the same with the file's content. */
export function overrideCatalogWith(published: Catalog, content: unknown): Catalog {
  const overrides = parse(fileSchema, content, 'catalog file')
  refuseUnknown('model', overrides.models, published.models)
  refuseUnknown('voice', overrides.voices ?? {}, published.voices)
  const voices = published.voices.map((voice) => overrideVoice(voice, overrides.voices?.[voice.id] ?? {}))
  const models = published.models.flatMap((model) => overrideModel(model, overrides.models[model.id] ?? {}, voices))
  return createCatalog({ models, voices, common: published.common })
}

function refuseUnknown(kind: string, overrides: object, known: readonly { readonly id: string }[]): void {
  const ids = known.map(({ id }) => id)
  const unknown = Object.keys(overrides).find((id) => !ids.includes(id))
  if (unknown !== undefined)
    throw new Error(`catalog file: there is no ${kind} "${unknown}"; the ${kind}s are ${ids.join(', ')}`)
}

function overrideVoice(voice: Voice, override: unknown): Voice {
  const { retirement_date } = parse(voiceOverrideSchema, override, `catalog file, voice "${voice.id}"`)
  return retirement_date === undefined ? voice : { ...voice, retirementDate: retirement_date }
}

function overrideModel(model: Model, override: unknown, voices: readonly Voice[]): Model[] {
  const subject = `catalog file, model "${model.id}"`
  const { enabled = true, ...changes } = parse(overrideSchemas[model.category], override, subject)
  if (!enabled) return []
  const changed = {
    ...model,
    ...Object.fromEntries(Object.entries(changes).map(([field, value]) => [CATALOG_FIELDS[field], value])),
  } as Model
  for (const [field, value] of Object.entries(changes)) {
    const bound = model[CATALOG_FIELDS[field] as keyof Model] as unknown
    if (typeof value === 'number' && typeof bound === 'number' && value > bound)
      throw new Error(`${subject}: ${field} is ${value}; the published limit is ${bound}`)
  }
  refuseWiderBounds(subject, model, changed)
  if (changed.category === 'text_generation') {
    if ('cached_input_per_million_tokens' in changes) refuseDearCache(subject, changed)
    return [withCheapCache(changed)]
  }
  if (changed.category === 'text_to_speech') refuseDefaultVoice(subject, changed.defaultVoice, voices)
  return [changed]
}

/** Keeps a built-in price of cached input at most that of the input, which a file may lower alone. */
function withCheapCache(model: TextModel): TextModel {
  const { inputPerMillionTokensUsd: input, cachedInputPerMillionTokensUsd: cached = input } = model
  return atomicFromDollars(cached) > atomicFromDollars(input)
    ? { ...model, cachedInputPerMillionTokensUsd: input }
    : model
}

/** A slip in the decimal point would charge a repeated prefix more than a new one. */
function refuseDearCache(subject: string, model: TextModel): void {
  const { inputPerMillionTokensUsd: input, cachedInputPerMillionTokensUsd: cached = input } = model
  if (atomicFromDollars(cached) > atomicFromDollars(input))
    throw new Error(
      `${subject}: cached_input_per_million_tokens is ${cached}; it must be at most input_per_million_tokens, ${input}`,
    )
}

/** A default that retires would turn valid requests without a voice into errors on that day. */
function refuseDefaultVoice(subject: string, alias: string, voices: readonly Voice[]): void {
  const voice = voices.find(({ id }) => id === alias)
  if (!voice) throw new Error(`${subject}: there is no voice "${alias}"`)
  if (voice.retirementDate !== null)
    throw new Error(
      `${subject}: its default voice "${alias}" has the retirement date ${voice.retirementDate}; set default_voice to a voice without one`,
    )
}

function refuseWiderBounds(subject: string, published: Model, changed: Model): void {
  const [minimum, maximum] = [atomicFromDollars(changed.minimumChargeUsd), atomicFromDollars(changed.maximumChargeUsd)]
  const inside =
    minimum >= atomicFromDollars(published.minimumChargeUsd) &&
    minimum <= maximum &&
    maximum <= atomicFromDollars(published.maximumChargeUsd)
  const bounds = `${published.minimumChargeUsd} to ${published.maximumChargeUsd} USD`
  if (!inside) throw new Error(`${subject}: the bounds of a call must lie within the published ${bounds}`)
  // An image has one fixed price; outside the bounds every request would be rejected.
  if (changed.category !== 'image_generation') return
  const fixed = atomicFromDollars(changed.pricePerImageUsd)
  if (fixed < minimum || fixed > maximum)
    throw new Error(`${subject}: price_per_successful_image_usd must lie within the published ${bounds}`)
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new Error('catalog file: not valid JSON', { cause })
  }
}

function parse<Output>(schema: z.ZodType<Output>, value: unknown, subject: string): Output {
  const parsed = schema.safeParse(value)
  if (!parsed.success) throw new Error(`${subject}: ${z.prettifyError(parsed.error)}`)
  return parsed.data
}
