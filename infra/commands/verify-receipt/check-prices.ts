import { z } from 'zod'
import { equals, parseExact } from '#receipts/exact.ts'
import { type Check, failed, passed, skipped } from '../check.ts'
import { fetchJson, messageOf } from './fetch-json.ts'
import type { GivenReceipt } from './read-receipt.ts'

const NAME = 'prices'

/** Names of prices in the price list, where they differ from the receipt's. */
const PUBLISHED_NAMES: Readonly<Record<string, string>> = {
  input_per_million_tokens_usd: 'input_per_million_tokens',
  cached_input_per_million_tokens_usd: 'cached_input_per_million_tokens',
  cache_write_per_million_tokens_usd: 'cache_write_per_million_tokens',
  output_per_million_tokens_usd: 'output_per_million_tokens',
  price_per_image_usd: 'price_per_successful_image_usd',
}

/** Prices of which the price list has one where a receipt of the same catalog has it. */
const OPTIONAL = ['cached_input_per_million_tokens_usd', 'cache_write_per_million_tokens_usd']

/** What settling the charge was expected to cost when it was quoted: no list of an earlier time has it. */
const GAS_MINIMUM = 'gas_minimum_charge_usd'

const pricingSchema = z.looseObject({
  catalog_version: z.string(),
  data: z.array(z.looseObject({ model: z.string() })),
})

const catalogSchema = z.looseObject({ catalog_version: z.string(), pricing: pricingSchema.shape.data })

/**
 * Checks that the receipt's unit prices are those of the catalog that it names, which the service keeps. Falls back to
 * its current price list for a version from before catalogs were kept.
 */
export async function checkCatalogPrices(receipt: GivenReceipt, baseUrl: string): Promise<Check> {
  const url = new URL(`/v1/catalogs/${encodeURIComponent(receipt.catalog_version)}`, baseUrl).href
  try {
    const { status, body } = await fetchJson(url)
    const catalog = catalogSchema.safeParse(body)
    if (status === 200 && catalog.success) {
      const { catalog_version, pricing } = catalog.data
      if (catalog_version === receipt.catalog_version) return comparePrices(receipt, { catalog_version, data: pricing })
      return failed(NAME, `${url} answered with ${catalog_version}`)
    }
    if (status !== 404) throw new Error(`${url} answered ${status} without a catalog`)
  } catch (error) {
    return skipped(NAME, messageOf(error))
  }
  return await checkPrices(receipt, new URL('/v1/pricing', baseUrl).href, false)
}

/**
 * Checks that the receipt's unit prices are those of a price list. A difference from another catalog version is reported
 * but is not a failure, since prices may have changed. A price list that cannot be read is a failure only when
 * `--pricing` named it.
 */
export async function checkPrices(receipt: GivenReceipt, url: string, isRequested: boolean): Promise<Check> {
  try {
    const { status, body } = await fetchJson(url)
    const pricing = pricingSchema.safeParse(body)
    if (status !== 200 || !pricing.success) throw new Error(`${url} answered ${status} without a price list`)
    return comparePrices(receipt, pricing.data)
  } catch (error) {
    return isRequested ? failed(NAME, messageOf(error)) : skipped(NAME, messageOf(error))
  }
}

function comparePrices(receipt: GivenReceipt, pricing: z.infer<typeof pricingSchema>): Check {
  const isSameCatalog = pricing.catalog_version === receipt.catalog_version
  const entry = pricing.data.find(({ model }) => model === receipt.model)
  if (!entry)
    return isSameCatalog
      ? failed(NAME, `${receipt.model} is not in ${receipt.catalog_version}`)
      : skipped(NAME, `${receipt.model} is no longer offered (${pricing.catalog_version})`)
  const stated = Object.entries(receipt.unit_prices).filter(([field, price]) => {
    if (!field.endsWith('_usd') || field === GAS_MINIMUM) return false
    const published = entry[PUBLISHED_NAMES[field] ?? field]
    return typeof published !== 'string' || !equals(parseExact(published), parseExact(String(price)))
  })
  // Without them, all of the input was charged at its full price.
  const missing = OPTIONAL.filter((field) => {
    return entry[PUBLISHED_NAMES[field] ?? field] !== undefined && receipt.unit_prices[field] === undefined
  }).map((field) => [field, 'missing'] as const)
  const different = [...stated, ...missing]
  const gasMinimum = receipt.unit_prices[GAS_MINIMUM]
  const matching = `match the published prices (${pricing.catalog_version})`
  if (different.length === 0 && gasMinimum !== undefined)
    return skipped(NAME, `${matching}, but only the payer's offer shows the minimum of ${gasMinimum} for gas`)
  if (different.length === 0) return passed(NAME, matching)
  const differences = different.map(([field, price]) => `${field} ${price}`).join(', ')
  return isSameCatalog
    ? failed(NAME, `differ from ${pricing.catalog_version}: ${differences}`)
    : skipped(NAME, `differ from the current prices (${differences}); the receipt is from ${receipt.catalog_version}`)
}
