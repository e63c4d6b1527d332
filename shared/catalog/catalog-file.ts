import { z } from 'zod'
import { atomicFromDollars } from '#shared/money/atomic-amount.ts'
import { type Catalog, createCatalog, type Model } from './catalog.ts'

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
const CATALOG_FIELDS: Readonly<Record<string, string>> = {
  minimum_charge_usd: 'minimumChargeUsd',
  maximum_charge_usd: 'maximumChargeUsd',
  input_per_million_tokens: 'inputPerMillionTokensUsd',
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

const fileSchema = z.strictObject({ models: z.record(z.string(), z.unknown()) })

/**
 * Returns `published` with the overrides of an operator's file, whose content is `text`:
 * `{"models": {"<id>": {"enabled": false}, "<id>": {"max_output_tokens": 8192}}}`.
 *
 * Limits and bounds of a call can only be narrowed, because the interface publishes them. Throws an `Error` with the
 * model, the field and the allowed range, which is meant to stop the start of a process.
 */
export function overrideCatalog(published: Catalog, text: string): Catalog {
  const { models: overrides } = parse(fileSchema, parseJson(text), 'catalog file')
  const ids = published.models.map(({ id }) => id)
  const unknown = Object.keys(overrides).find((id) => !ids.includes(id))
  if (unknown !== undefined)
    throw new Error(`catalog file: there is no model "${unknown}"; the models are ${ids.join(', ')}`)
  const models = published.models.flatMap((model) => overrideModel(model, overrides[model.id] ?? {}, published))
  return createCatalog({ models, voices: published.voices })
}

function overrideModel(model: Model, override: unknown, { voices }: Catalog): Model[] {
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
  if (changed.category === 'text_to_speech' && !voices.some(({ id }) => id === changed.defaultVoice))
    throw new Error(`${subject}: there is no voice "${changed.defaultVoice}"`)
  return [changed]
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
