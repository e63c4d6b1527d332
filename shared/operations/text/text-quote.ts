import { z } from 'zod'
import { type Catalog, findModel, type TextModel } from '#shared/catalog/catalog.ts'
import { AppError } from '#shared/errors/app-error.ts'
import { type AtomicAmount, atomicFromDollars } from '#shared/money/atomic-amount.ts'
import { boundedCharge, chargeBounds, withinBounds } from '#shared/pricing/bounded-charge.ts'
import { type PricedQuantity, roundedPrice } from '#shared/pricing/calculation.ts'
import type { Quote } from '#shared/pricing/quote.ts'
import { refuseAboveBound } from '../maximum-price.ts'
import { requireTextCarrier } from '../vendors/carriers.ts'
import { type TextRequest, type TextUsage, uncachedInputTokens } from './text-request.ts'
import { inputTokenBound } from './text-tokens.ts'

const TOKENS_PER_PRICE = 1_000_000n

export const textTermsSchema = z.strictObject({
  input_per_million_tokens_usd: z.string(),
  /** Of input that the vendor reads from its prompt cache or writes to it; absent: as any input. */
  cached_input_per_million_tokens_usd: z.string().optional(),
  cache_write_per_million_tokens_usd: z.string().optional(),
  output_per_million_tokens_usd: z.string(),
  ...chargeBounds,
  /** The proven maximum of this request: no more is charged, whatever an upstream reports. */
  maximum_input_tokens: z.int().positive(),
  maximum_output_tokens: z.int().positive(),
})

export type TextTerms = z.infer<typeof textTermsSchema>

/**
 * Computes the proven maximum of a text call. Throws `invalid_field` (`max_tokens` above the model's limit),
 * `context_length_exceeded`, `maximum_price_exceeded`, and `request_unsupported` for what no deployment of the model takes,
 * all 400. `params` are the endpoint's names of fields that the internal request calls otherwise.
 */
export function quoteText(
  request: TextRequest,
  modelId: string,
  catalog: Catalog,
  params: Readonly<Partial<Record<keyof TextRequest, string>>> = {},
): Quote<TextTerms> {
  const model = findModel(catalog, 'text_generation', modelId)
  if (!model) throw new Error(`the catalog has no model ${modelId}`)
  requireTextCarrier(catalog, modelId, request, params)
  const { cachedInputPerMillionTokensUsd: cached, cacheWritePerMillionTokensUsd: written } = model
  const terms: TextTerms = {
    input_per_million_tokens_usd: model.inputPerMillionTokensUsd,
    ...(cached === undefined ? {} : { cached_input_per_million_tokens_usd: cached }),
    ...(written === undefined ? {} : { cache_write_per_million_tokens_usd: written }),
    output_per_million_tokens_usd: model.outputPerMillionTokensUsd,
    minimum_charge_usd: model.minimumChargeUsd,
    maximum_charge_usd: model.maximumChargeUsd,
    maximum_input_tokens: inputTokenBound(request),
    maximum_output_tokens: request.max_output_tokens,
  }
  refuseBeyondModel(model, terms)
  const price = exactPrice(terms)
  if (price > atomicFromDollars(terms.maximum_charge_usd)) refuseBeyondBound(terms, price)
  return { quotedMaximum: withinBounds(price, terms), catalogVersion: catalog.version, terms }
}

/**
 * Returns the usage that costs the most under these terms: all of the input that was proven, at the highest of its
 * prices, and all of the output.
 */
export function dearestUsage(terms: TextTerms): TextUsage {
  const { maximum_input_tokens: input, maximum_output_tokens: output } = terms
  const fresh = atomicFromDollars(terms.input_per_million_tokens_usd)
  const cached = atomicFromDollars(terms.cached_input_per_million_tokens_usd ?? terms.input_per_million_tokens_usd)
  const written = atomicFromDollars(terms.cache_write_per_million_tokens_usd ?? terms.input_per_million_tokens_usd)
  const usage = { input_tokens: input, output_tokens: output }
  if (written > fresh && written >= cached) return { ...usage, cache_write_tokens: input }
  return cached > fresh ? { ...usage, cached_input_tokens: input } : usage
}

/** One user message without text: what a request is counted with before its first byte. */
const EMPTY_MESSAGE: TextRequest = {
  messages: [{ role: 'user', parts: [{ type: 'text', text: '' }] }],
  max_output_tokens: 1,
}

/**
 * Returns the most UTF-8 bytes of text that a request with one message and one output token may have: the first limit
 * that it reaches of the context window and the price bound, both of which count a byte as a token.
 */
export function largestTextBytes(model: TextModel): number {
  const { inputPerMillionTokensUsd: input, cacheWritePerMillionTokensUsd: written = input } = model
  const outputPrice = atomicFromDollars(model.outputPerMillionTokensUsd)
  const inputPrice = [input, written].map(atomicFromDollars).reduce((one, other) => (one > other ? one : other))
  const room = atomicFromDollars(model.maximumChargeUsd) * TOKENS_PER_PRICE - outputPrice
  const withinWindow = model.contextWindow - EMPTY_MESSAGE.max_output_tokens
  const withinBound = inputPrice === 0n ? withinWindow : Number(room / inputPrice)
  return Math.max(0, Math.min(withinWindow, withinBound) - inputTokenBound(EMPTY_MESSAGE))
}

function refuseBeyondModel(model: TextModel, terms: TextTerms): void {
  const { maximum_input_tokens: input, maximum_output_tokens: output } = terms
  if (output > model.maximumOutputTokens)
    throw new AppError('invalid_field', {
      param: 'max_tokens',
      message: `max_tokens must be at most ${model.maximumOutputTokens} for ${model.id}; got ${output}.`,
    })
  if (input + output > model.contextWindow)
    throw new AppError('context_length_exceeded', {
      param: 'messages',
      message: `The request can reach ${input + output} tokens (input up to ${input}, counted in bytes; output up to ${output}), which is ${input + output - model.contextWindow} more than the ${model.contextWindow} that ${model.id} supports.`,
    })
}

/** Returns the price of the dearest usage, before it is raised to the minimum. */
function exactPrice(terms: TextTerms): AtomicAmount {
  return roundedPrice(pricedTokens(dearestUsage(terms), terms))
}

function refuseBeyondBound(terms: TextTerms, price: AtomicAmount): void {
  const { maximum_charge_usd: bound } = terms
  // A request above the bound with a single output token needs a shorter input.
  refuseAboveBound(exactPrice({ ...terms, maximum_output_tokens: 1 }), bound, 'messages', 'Shorten the input.')
  refuseAboveBound(price, bound, 'max_tokens', 'Lower max_tokens or shorten the input.')
}

export function pricedTokens(usage: TextUsage, terms: TextTerms): readonly PricedQuantity[] {
  return [
    ...pricedInput(usage, terms),
    tokens('output_tokens', usage.output_tokens, terms.maximum_output_tokens, terms.output_per_million_tokens_usd),
  ]
}

/**
 * Returns the input as one quantity or, where a part of it has a price of its own, as three. They are charged in this
 * order until the proven maximum of the whole input is reached.
 */
function pricedInput(usage: TextUsage, terms: TextTerms): readonly PricedQuantity[] {
  const price = terms.input_per_million_tokens_usd
  const { cached_input_per_million_tokens_usd: cachedPrice, cache_write_per_million_tokens_usd: writePrice } = terms
  if (cachedPrice === undefined && writePrice === undefined)
    return [tokens('input_tokens', usage.input_tokens, terms.maximum_input_tokens, price)]
  const parts = [
    ['cached_input_tokens', usage.cached_input_tokens ?? 0, cachedPrice ?? price],
    ['uncached_input_tokens', uncachedInputTokens(usage), price],
    ['cache_write_tokens', usage.cache_write_tokens ?? 0, writePrice ?? price],
  ] as const
  let room = terms.maximum_input_tokens
  return parts.map(([name, measured, priceUsd]) => {
    const quantity = tokens(name, measured, room, priceUsd)
    room -= Math.min(measured, room)
    return quantity
  })
}

function tokens(usage: string, measured: number, atMost: number, priceUsd: string): PricedQuantity {
  return { usage, measured, atMost, unit: 'token', priceUsd, units: TOKENS_PER_PRICE }
}

/** Charges the measured usage, hidden thinking included; tokens beyond the proven maximum are the operator's loss. */
export function chargeText(usage: TextUsage, terms: TextTerms): AtomicAmount {
  return boundedCharge(pricedTokens(usage, terms), terms)
}
