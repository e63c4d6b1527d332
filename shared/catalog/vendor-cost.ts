import { z } from 'zod'
import { type AtomicAmount, atomicFromDollars } from '#shared/money/atomic-amount.ts'
import { sumOf } from '#shared/money/fraction.ts'
import { atomicRoundedUp, priceOf, unitPrice } from '#shared/money/unit-price.ts'
import type { Catalog, Model } from './catalog.ts'

const price = z.string().regex(/^\d{1,6}(\.\d{1,6})?$/, { error: 'must be decimal dollars with at most six decimals' })

/**
 * What a vendor bills the operator for, in decimal dollars before tax. A vendor's own server costs `0` a unit, or what the
 * operator reckons it costs.
 */
export const vendorPricesSchema = z.strictObject({
  input_per_million_tokens: price.optional(),
  /** Of input that is read from the prompt cache, and that is written to it; absent: as any input. */
  cached_input_per_million_tokens: price.optional(),
  cache_write_per_million_tokens: price.optional(),
  output_per_million_tokens: price.optional(),
  price_per_image_usd: price.optional(),
  price_per_thousand_characters_usd: price.optional(),
  price_per_audio_hour_usd: price.optional(),
  /** The day on which the prices were read. */
  as_of: z.iso.date(),
  /** Where they were read: an address, or a contract. */
  source: z.string().min(1).max(500),
})

export type VendorPrices = z.infer<typeof vendorPricesSchema>

type PriceField = Exclude<keyof VendorPrices, 'as_of' | 'source'>

/** By quantity: the price of so many units of it. */
const QUANTITIES = {
  input_tokens: { field: 'input_per_million_tokens', units: 1_000_000n },
  cached_input_tokens: { field: 'cached_input_per_million_tokens', units: 1_000_000n },
  cache_write_tokens: { field: 'cache_write_per_million_tokens', units: 1_000_000n },
  output_tokens: { field: 'output_per_million_tokens', units: 1_000_000n },
  images: { field: 'price_per_image_usd', units: 1n },
  input_characters: { field: 'price_per_thousand_characters_usd', units: 1000n },
  input_audio_ms: { field: 'price_per_audio_hour_usd', units: 3_600_000n },
} as const satisfies Record<string, { readonly field: PriceField; readonly units: bigint }>

/**
 * Returns what the vendor bills for the measured usage, in atomic USDC, rounded up once. `null` when a price of it is not
 * known. Output that is an image is billed by the image.
 */
export function vendorCost(
  prices: VendorPrices | undefined,
  usage: Readonly<Record<string, number>>,
): AtomicAmount | null {
  if (prices === undefined) return null
  const { input_tokens: input = 0, cached_input_tokens: cached = 0, cache_write_tokens: written = 0 } = usage
  const measured = 'input_tokens' in usage ? { ...usage, input_tokens: input - cached - written } : usage
  const billed = Object.entries(QUANTITIES).filter(([name]) => measured[name] !== undefined)
  const parts = billed.flatMap(([name, { field, units }]) => {
    const dollars = priceIn(prices, field)
    return dollars === undefined ? [] : [priceOf(unitPrice(dollars, units), BigInt(measured[name] ?? 0))]
  })
  return parts.length === 0 || parts.length < billed.length ? null : atomicRoundedUp(sumOf(parts))
}

/** Returns a price of a vendor or model; input that the cache has a part in costs as any input where it has none. */
function priceIn(prices: Readonly<Partial<Record<PriceField, string | undefined>>>, field: PriceField) {
  return prices[field] ?? (CACHE_FIELDS.has(field) ? prices.input_per_million_tokens : undefined)
}

const CACHE_FIELDS: ReadonlySet<PriceField> = new Set([
  'cached_input_per_million_tokens',
  'cache_write_per_million_tokens',
])

/** A price of a model that is lower than what one of its deployments costs. */
export interface BelowCost {
  readonly model: string
  readonly deployment: string
  readonly field: PriceField
  readonly priceUsd: string
  readonly costUsd: string
}

/** Compares the published prices with those of the vendors. */
export interface CostComparison {
  readonly belowCost: readonly BelowCost[]
  /** Deployments that lack a price for what they serve. */
  readonly withoutPrices: readonly string[]
}

interface PricedDeployment {
  readonly name: string
  /** Public model ids. */
  readonly serves: readonly string[]
  readonly prices?: VendorPrices | undefined
}

/** Compares each price of each model with that of every deployment that serves it. */
export function compareWithCost(
  { models }: Pick<Catalog, 'models'>,
  { deployments }: { readonly deployments: readonly PricedDeployment[] },
): CostComparison {
  const belowCost: BelowCost[] = []
  const withoutPrices = new Set<string>()
  for (const { name: deployment, serves, prices } of deployments)
    for (const model of models.filter(({ id }) => serves.includes(id)))
      for (const [field, priceUsd] of pricesOf(model, prices)) {
        const costUsd = prices && priceIn(prices, field)
        if (costUsd === undefined) withoutPrices.add(deployment)
        else if (atomicFromDollars(priceUsd) < atomicFromDollars(costUsd))
          belowCost.push({ model: model.id, deployment, field, priceUsd, costUsd })
      }
  return { belowCost, withoutPrices: [...withoutPrices] }
}

/** Returns the prices of a model, those of the prompt cache where the model or the vendor has one of its own. */
function pricesOf(model: Model, vendor: VendorPrices | undefined): readonly (readonly [PriceField, string])[] {
  switch (model.category) {
    case 'text_generation': {
      const prices = {
        input_per_million_tokens: model.inputPerMillionTokensUsd,
        cached_input_per_million_tokens: model.cachedInputPerMillionTokensUsd,
        cache_write_per_million_tokens: model.cacheWritePerMillionTokensUsd,
        output_per_million_tokens: model.outputPerMillionTokensUsd,
      }
      const fields = Object.keys(prices) as (keyof typeof prices)[]
      return fields.flatMap((field) => {
        const priceUsd = priceIn(prices, field)
        const isSplit = prices[field] !== undefined || vendor?.[field] !== undefined
        return priceUsd !== undefined && isSplit ? [[field, priceUsd] as const] : []
      })
    }
    case 'image_generation':
      return [['price_per_image_usd', model.pricePerImageUsd]]
    case 'text_to_speech':
      return [['price_per_thousand_characters_usd', model.pricePerThousandCharactersUsd]]
    case 'speech_to_text':
      return [['price_per_audio_hour_usd', model.pricePerAudioHourUsd]]
  }
}

/** Says one of them in a sentence: what callers pay, and what it costs. */
export function describeBelowCost({ model, deployment, field, priceUsd, costUsd }: BelowCost): string {
  return `${model} is sold below cost: ${field} is ${priceUsd}, and ${deployment} costs ${costUsd}`
}
