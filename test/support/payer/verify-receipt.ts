import { equals, parseExact } from '#receipts/exact.ts'
import { createFarebox, type ReceiptVerification, type Wire } from '../../../client/farebox.ts'
import type { VerifyOptions } from '../../../client/receipts/receipt-check.ts'
import { throwawayWallet } from '../../../client/wallet/wallet-from-private-key.ts'

interface Service {
  readonly baseUrl: string
  readonly rpcUrl: string
}

/** Verifies a receipt, or the one with this id, as anybody does who has it, or its token. */
export async function verifyAsAnyone(
  { baseUrl, rpcUrl }: Service,
  receipt: string | Wire.Receipt,
  options: VerifyOptions = {},
): Promise<ReceiptVerification> {
  const farebox = await createFarebox({ wallet: throwawayWallet(), baseUrl, journal: 'memory' })
  try {
    return await farebox.verify(receipt, { rpcUrl, isOfAnyone: true, ...options })
  } finally {
    await farebox.close()
  }
}

/** Returns the names of the checks that a receipt fails. */
export async function failedChecks(service: Service, receipt: Wire.Receipt): Promise<readonly string[]> {
  const { checks } = await verifyAsAnyone(service, receipt)
  return checks.filter(({ outcome }) => outcome === 'failed').map(({ name }) => name)
}

/** Names of prices in the price list, where they differ from the receipt's. */
const PUBLISHED_NAMES: Readonly<Record<string, string>> = {
  input_per_million_tokens_usd: 'input_per_million_tokens',
  cached_input_per_million_tokens_usd: 'cached_input_per_million_tokens',
  cache_write_per_million_tokens_usd: 'cache_write_per_million_tokens',
  output_per_million_tokens_usd: 'output_per_million_tokens',
  price_per_image_usd: 'price_per_successful_image_usd',
}

/** Prices of which the catalog has one where a receipt has it. */
const OPTIONAL = ['cached_input_per_million_tokens_usd', 'cache_write_per_million_tokens_usd']

interface PublishedCatalog {
  readonly catalog_version: string
  readonly pricing: readonly (Readonly<Record<string, unknown>> & { readonly model: string })[]
}

/** Returns how a receipt's prices differ from those of the catalog that it names, which the service keeps. */
export async function priceDifferences(baseUrl: string, receipt: Wire.Receipt): Promise<readonly string[]> {
  const { model, catalog_version: version, unit_prices: prices } = receipt
  const answer = await fetch(`${baseUrl}/v1/catalogs/${version}`)
  const catalog = (await answer.json()) as PublishedCatalog
  if (catalog.catalog_version !== version) return [`GET /v1/catalogs/${version} answers ${answer.status}`]
  const entry = catalog.pricing.find((each) => each.model === model)
  // Without them, all of the input was charged at its full price.
  const missing = OPTIONAL.filter(
    (field) => entry?.[PUBLISHED_NAMES[field] ?? field] !== undefined && !(field in prices),
  )
  const stated = Object.entries(prices).flatMap(([field, price]) => {
    // What settling was expected to cost when the call was quoted: no catalog has it.
    if (!field.endsWith('_usd') || field === 'gas_minimum_charge_usd') return []
    const published = entry?.[PUBLISHED_NAMES[field] ?? field]
    const isSame = typeof published === 'string' && equals(parseExact(published), parseExact(String(price)))
    return isSame ? [] : [`${field} is ${price}, and ${String(published)} in ${version}`]
  })
  return [...stated, ...missing.map((field) => `${field} is missing`)]
}
