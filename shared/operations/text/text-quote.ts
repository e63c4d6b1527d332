import { z } from 'zod'
import { type Catalog, findModel, type TextModel } from '#shared/catalog/catalog.ts'
import { AppError } from '#shared/errors/app-error.ts'
import { type AtomicAmount, atomicFromDollars } from '#shared/money/atomic-amount.ts'
import { boundedCharge } from '#shared/pricing/bounded-charge.ts'
import { type PricedQuantity, roundedPrice } from '#shared/pricing/calculation.ts'
import type { Quote } from '#shared/pricing/quote.ts'
import { refuseAboveBound } from '../maximum-price.ts'
import type { TextRequest, TextUsage } from './text-request.ts'
import { inputTokenBound } from './text-tokens.ts'

const TOKENS_PER_PRICE = 1_000_000n

export const textTermsSchema = z.strictObject({
  input_per_million_tokens_usd: z.string(),
  output_per_million_tokens_usd: z.string(),
  minimum_charge_usd: z.string(),
  maximum_charge_usd: z.string(),
  /** The proven maximum of this request: no more is charged, whatever an upstream reports. */
  maximum_input_tokens: z.int().positive(),
  maximum_output_tokens: z.int().positive(),
})

export type TextTerms = z.infer<typeof textTermsSchema>

/**
 * Computes the proven maximum of a text call. Throws `invalid_field` (`max_tokens` above the model's limit),
 * `context_length_exceeded` and `maximum_price_exceeded`, all 400.
 */
export function quoteText(request: TextRequest, modelId: string, catalog: Catalog): Quote<TextTerms> {
  const model = findModel(catalog, 'text_generation', modelId)
  if (!model) throw new Error(`the catalog has no model ${modelId}`)
  const terms: TextTerms = {
    input_per_million_tokens_usd: model.inputPerMillionTokensUsd,
    output_per_million_tokens_usd: model.outputPerMillionTokensUsd,
    minimum_charge_usd: model.minimumChargeUsd,
    maximum_charge_usd: model.maximumChargeUsd,
    maximum_input_tokens: inputTokenBound(request),
    maximum_output_tokens: request.max_output_tokens,
  }
  refuseBeyondModel(model, terms)
  refuseBeyondBound(terms)
  const maximumUsage = { input_tokens: terms.maximum_input_tokens, output_tokens: terms.maximum_output_tokens }
  return { quotedMaximum: chargeText(maximumUsage, terms), catalogVersion: catalog.version, terms }
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
  const [inputPrice, outputPrice] = [
    atomicFromDollars(model.inputPerMillionTokensUsd),
    atomicFromDollars(model.outputPerMillionTokensUsd),
  ]
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

function refuseBeyondBound(terms: TextTerms): void {
  const { maximum_input_tokens: input, maximum_output_tokens: output, maximum_charge_usd: bound } = terms
  const exactPrice = (outputTokens: number) =>
    roundedPrice(pricedTokens({ input_tokens: input, output_tokens: outputTokens }, terms))
  if (exactPrice(output) <= atomicFromDollars(bound)) return
  // A request above the bound with a single output token needs a shorter input.
  refuseAboveBound(exactPrice(1), bound, 'messages', 'Shorten the input.')
  refuseAboveBound(exactPrice(output), bound, 'max_tokens', 'Lower max_tokens or shorten the input.')
}

export function pricedTokens(
  usage: Pick<TextUsage, 'input_tokens' | 'output_tokens'>,
  terms: TextTerms,
): readonly PricedQuantity[] {
  return [
    {
      usage: 'input_tokens',
      measured: usage.input_tokens,
      atMost: terms.maximum_input_tokens,
      unit: 'token',
      priceUsd: terms.input_per_million_tokens_usd,
      units: TOKENS_PER_PRICE,
    },
    {
      usage: 'output_tokens',
      measured: usage.output_tokens,
      atMost: terms.maximum_output_tokens,
      unit: 'token',
      priceUsd: terms.output_per_million_tokens_usd,
      units: TOKENS_PER_PRICE,
    },
  ]
}

/** Charges the measured usage, hidden thinking included; tokens beyond the proven maximum are the operator's loss. */
export function chargeText(usage: TextUsage, terms: TextTerms): AtomicAmount {
  return boundedCharge(pricedTokens(usage, terms), terms)
}
