import { z } from 'zod'
import { CATALOG_FIELDS } from '#shared/catalog/catalog-file.ts'
import type { Model } from '#shared/catalog/catalog.ts'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import type { JsonValue } from '#shared/digests/canonical-json.ts'

const LABELS = {
  input_per_million_tokens: 'Input, USD for 1,000,000 tokens',
  cached_input_per_million_tokens: 'Input read from the vendor’s cache, USD for 1,000,000 tokens',
  cache_write_per_million_tokens: 'Input written to the vendor’s cache, USD for 1,000,000 tokens',
  output_per_million_tokens: 'Output, USD for 1,000,000 tokens',
  price_per_successful_image_usd: 'An image, USD',
  price_per_thousand_characters_usd: 'Text, USD for 1,000 characters',
  price_per_audio_hour_usd: 'Audio, USD for an hour',
  minimum_charge_usd: 'A call at least, USD',
  maximum_charge_usd: 'A call at most, USD',
} as const

type PriceName = keyof typeof LABELS
const NAMES = Object.keys(LABELS) as PriceName[]

const price = z
  .string()
  .trim()
  .regex(/^(\d{1,6}(\.\d{1,6})?)?$/, 'Dollars with at most six decimals, such as 0.35.')
  .optional()

/** The fields of a model's prices, as the form sends them; an empty one stands for the built-in price. */
export const priceFields = z.object(
  Object.fromEntries(NAMES.map((name) => [name, price])) as Record<PriceName, typeof price>,
)

/** Returns the form of each model's prices: what a catalog's content overrides, and the built-in price as a hint. */
export function priceForms(content: JsonValue) {
  return publishedCatalog.models.map((model) => ({
    model: model.id,
    action: `/operator/catalog/models/${encodeURIComponent(model.id)}/draft`,
    fields: NAMES.flatMap((name) => {
      const builtIn = builtInPrice(model, name)
      if (!hasPrice(model, name)) return []
      const value = overridesOf(content)?.[model.id]?.[name]
      return [
        {
          name,
          label: LABELS[name],
          value: typeof value === 'string' ? value : '',
          maximum: 13,
          hint: builtIn === undefined ? 'Built in: as any input' : `Built in: ${builtIn}`,
        },
      ]
    }),
  }))
}

/** Returns a catalog's content with the prices of a model; `null` for a model or content without any. */
export function withPrices(content: JsonValue, id: string, prices: z.infer<typeof priceFields>): JsonValue | null {
  const model = publishedCatalog.models.find((one) => one.id === id)
  const models = overridesOf(content)
  if (!model || !models) return null
  const names = NAMES.filter((name) => prices[name] !== undefined && hasPrice(model, name))
  const kept = Object.entries(models[id] ?? {}).filter(([name]) => !names.some((one) => one === name))
  const entered = names.flatMap((name) => (prices[name] ? [[name, prices[name]] as const] : []))
  const { [id]: _before, ...others } = models
  const changed = Object.fromEntries([...kept, ...entered])
  return {
    ...(content as Readonly<Record<string, JsonValue>>),
    models: Object.keys(changed).length === 0 ? others : { ...others, [id]: changed },
  }
}

/** The price of a text model that no built-in one has. */
const OPTIONAL: PriceName = 'cache_write_per_million_tokens'

function hasPrice(model: Model, name: PriceName): boolean {
  return name === OPTIONAL ? model.category === 'text_generation' : builtInPrice(model, name) !== undefined
}

function builtInPrice(model: Model, name: PriceName): string | undefined {
  const value: unknown = model[CATALOG_FIELDS[name] as keyof Model]
  return typeof value === 'string' ? value : undefined
}

/** Returns the overrides by model; `undefined` for a content that is none of a catalog. */
function overridesOf(content: JsonValue): Readonly<Record<string, Readonly<Record<string, JsonValue>>>> | undefined {
  const parsed = z.object({ models: z.record(z.string(), z.record(z.string(), z.json())) }).safeParse(content)
  return parsed.success ? parsed.data.models : undefined
}
