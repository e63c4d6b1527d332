import { type Catalog, findModel, type Model } from '#shared/catalog/catalog.ts'
import type { JsonValue } from '#shared/digests/canonical-json.ts'
import { type AtomicAmount, atomicFromDollars, dollarsFromAtomic } from '#shared/money/atomic-amount.ts'
import { type AnyOperation, operationById } from '#shared/operations/registry.ts'
import { dearestUsage, type TextTerms } from '#shared/operations/text/text-quote.ts'
import { roundedPrice } from '#shared/pricing/calculation.ts'

/** A call as the ledger has it. Its request is not stored any more; its terms and its usage are. */
export interface PastCall {
  readonly jobId: string
  readonly acceptedAt: Date
  readonly operation: string
  readonly model: string
  readonly terms: JsonValue
  /** `null` for a call without a result. */
  readonly usage: JsonValue | null
  readonly quotedMaximum: AtomicAmount
  /** `null` for a call without a result. */
  readonly charge: AtomicAmount | null
}

/** What a call would have cost under another catalog. */
export type PricedAgain =
  | { readonly outcome: 'priced'; readonly quotedMaximum: AtomicAmount | null; readonly charge: AtomicAmount | null }
  /** The catalog offers no such call. */
  | { readonly outcome: 'refused'; readonly why: string }

/** The catalog's names of what a quote freezes in its terms. */
const PRICES: Readonly<Record<string, string>> = {
  input_per_million_tokens_usd: 'inputPerMillionTokensUsd',
  cached_input_per_million_tokens_usd: 'cachedInputPerMillionTokensUsd',
  cache_write_per_million_tokens_usd: 'cacheWritePerMillionTokensUsd',
  output_per_million_tokens_usd: 'outputPerMillionTokensUsd',
  price_per_image_usd: 'pricePerImageUsd',
  price_per_thousand_characters_usd: 'pricePerThousandCharactersUsd',
  price_per_audio_hour_usd: 'pricePerAudioHourUsd',
  minimum_charge_usd: 'minimumChargeUsd',
  maximum_charge_usd: 'maximumChargeUsd',
}

/** Prices that not every model of a category has. */
const OPTIONAL_PRICES = ['cached_input_per_million_tokens_usd', 'cache_write_per_million_tokens_usd']

type Terms = Readonly<Record<string, string | number>>

/**
 * Prices a past call under another catalog: its terms with the prices of that catalog, its measured usage, and the usage
 * that its maximum was computed for. `quotedMaximum` is `null` where that usage is not known, which is so for recordings
 * without a transcript.
 */
export function priceAgain(call: PastCall, catalog: Catalog): PricedAgain {
  const operation = operationById(call.operation)
  const model = findModel(catalog, operation.category, call.model)
  if (!model) return { outcome: 'refused', why: `${call.model} is not offered` }
  const terms = withPricesOf(model, call.terms as Terms)
  const most = mostUsage(call, terms)
  const why = most && refusalOf(operation, model, most, terms)
  if (why) return { outcome: 'refused', why }
  return {
    outcome: 'priced',
    quotedMaximum: most && operation.charge(most, terms),
    charge: call.usage === null ? null : operation.charge(call.usage, terms),
  }
}

/** Returns the terms of a quote with the prices of another model, which may have more or fewer of them. */
function withPricesOf(model: Model, terms: Terms): Terms {
  const prices = model as unknown as Readonly<Record<string, string | number | undefined>>
  const names = new Set([...Object.keys(terms), ...OPTIONAL_PRICES])
  const priced = [...names].flatMap((name) => {
    const value = prices[PRICES[name] ?? ''] ?? (OPTIONAL_PRICES.includes(name) ? undefined : terms[name])
    return value === undefined ? [] : [[name, value] as const]
  })
  return Object.fromEntries(priced)
}

type Usage = Readonly<Record<string, number | undefined>>

/** Returns the usage that the maximum of a call was computed for; `null` where it is not known. */
function mostUsage({ usage }: PastCall, terms: Terms): Usage | null {
  if ('maximum_output_tokens' in terms) return dearestUsage(terms as unknown as TextTerms)
  if ('maximum_characters' in terms) return { input_characters: Number(terms['maximum_characters']) }
  if ('price_per_image_usd' in terms) return { images: 1 }
  return usage as Usage | null
}

function refusalOf(operation: AnyOperation, model: Model, most: Usage, terms: Terms): string | null {
  const limits = limitsOf(model)
  for (const [unit, limit] of Object.entries(limits)) {
    const amount = unit === 'tokens' ? (most['input_tokens'] ?? 0) + (most['output_tokens'] ?? 0) : (most[unit] ?? 0)
    if (amount > limit) return `${amount} ${unit.replaceAll('_', ' ')}, above the limit of ${limit}`
  }
  const price = roundedPrice(operation.pricedQuantities(most, terms))
  return price > atomicFromDollars(model.maximumChargeUsd)
    ? `a maximum of ${dollarsFromAtomic(price)} USD, above the bound of ${model.maximumChargeUsd}`
    : null
}

function limitsOf(model: Model): Readonly<Record<string, number>> {
  switch (model.category) {
    case 'text_generation':
      return { output_tokens: model.maximumOutputTokens, tokens: model.contextWindow }
    case 'text_to_speech':
      return { input_characters: model.maximumCharacters }
    case 'speech_to_text':
      return { input_audio_ms: model.maximumAudioDurationMs }
    case 'image_generation':
      return {}
  }
}
