import { z } from 'zod'
import { type Catalog, findModel } from '#shared/catalog/catalog.ts'
import { type AtomicAmount, atomicAmount, atomicFromDollars } from '#shared/money/atomic-amount.ts'
import { clamp } from '#shared/money/rounding.ts'
import { type PricedQuantity, roundedPrice } from '#shared/pricing/calculation.ts'
import type { Quote } from '#shared/pricing/quote.ts'
import type { Operation } from './operation.ts'
import { refuseUnstorableText, textOfCodePoints } from './request-text.ts'

const MODEL = 'textmodel-3.1-flash-lite-image'

/** Days that the hosted URL serves the image (specification, Image result). */
const URL_RETENTION_DAYS = 7

const bodySchema = z
  .strictObject({
    model: z.literal(MODEL),
    prompt: textOfCodePoints(1, 4000),
    n: z.literal(1).meta({ type: 'integer' }).default(1),
    image_size: z.literal('1K').default('1K'),
    aspect_ratio: z.literal('1:1').default('1:1'),
    size: z.literal('1024x1024').optional().meta({ deprecated: true, description: 'Use image_size and aspect_ratio.' }),
    response_format: z.enum(['url', 'b64_json']).default('url'),
  })
  .check(refuseUnstorableText)

const effectiveRequestSchema = z.strictObject({
  operation: z.literal('createImageGeneration'),
  model: z.string(),
  prompt: z.string(),
  n: z.literal(1),
  image_size: z.literal('1K'),
  aspect_ratio: z.literal('1:1'),
  response_format: z.enum(['url', 'b64_json']),
})

const termsSchema = z.strictObject({
  price_per_image_usd: z.string(),
  minimum_charge_usd: z.string(),
  maximum_charge_usd: z.string(),
})

const usageSchema = z.strictObject({ images: z.literal(1) })

const resultSchema = z.strictObject({
  created: z.int(),
  model: z.literal(MODEL),
  image_size: z.literal('1K'),
  aspect_ratio: z.literal('1:1'),
  data: z
    .array(
      z.strictObject({
        url: z.url(),
        backed_up: z.literal(true),
        url_expires_at: z.iso.datetime(),
        url_retention_days: z.literal(URL_RETENTION_DAYS),
        b64_json: z.base64().optional(),
        revised_prompt: z.string().optional(),
      }),
    )
    .length(1),
  price: z.strictObject({ amount: z.string(), currency: z.literal('USD') }),
})

export type ImageBody = z.infer<typeof bodySchema>
export type EffectiveImage = z.infer<typeof effectiveRequestSchema>
export type ImageTerms = z.infer<typeof termsSchema>
export type ImageUsage = z.infer<typeof usageSchema>
export type ImageResult = z.infer<typeof resultSchema>

/** `size` is another spelling of the only size there is, so it does not enter the effective request. */
function effectiveRequest(body: ImageBody): EffectiveImage {
  const { model, prompt, n, image_size, aspect_ratio, response_format } = body
  return { operation: 'createImageGeneration', model, prompt, n, image_size, aspect_ratio, response_format }
}

function quote(effective: EffectiveImage, catalog: Catalog): Quote<ImageTerms> {
  const model = findModel(catalog, 'image_generation', effective.model)
  if (!model) throw new Error(`the catalog has no model ${effective.model}`)
  const terms = {
    price_per_image_usd: model.pricePerImageUsd,
    minimum_charge_usd: model.minimumChargeUsd,
    maximum_charge_usd: model.maximumChargeUsd,
  }
  return { quotedMaximum: charge({ images: 1 }, terms), catalogVersion: catalog.version, terms }
}

/** One successful image has one fixed price. */
function pricedQuantities({ images }: ImageUsage, terms: ImageTerms): readonly PricedQuantity[] {
  return [
    { usage: 'images', measured: images, atMost: null, unit: 'image', priceUsd: terms.price_per_image_usd, units: 1n },
  ]
}

function charge(usage: ImageUsage, terms: ImageTerms): AtomicAmount {
  const [minimum, maximum] = [atomicFromDollars(terms.minimum_charge_usd), atomicFromDollars(terms.maximum_charge_usd)]
  return atomicAmount(clamp(roundedPrice(pricedQuantities(usage, terms)), minimum, maximum))
}

export interface ImageResultFacts {
  /** Unix seconds. */
  readonly created: number
  readonly url: string
  /** Seven days after generation. */
  readonly expiresAt: Date
  /** Standard Base64 of the image; only when `b64_json` was asked for. */
  readonly base64?: string
  readonly revisedPrompt?: string
  /** Decimal dollars. */
  readonly price: string
}

/** The public answer of `POST /v1/images/generations`. */
export function imageResult({ created, url, expiresAt, base64, revisedPrompt, price }: ImageResultFacts): ImageResult {
  return {
    created,
    model: MODEL,
    image_size: '1K',
    aspect_ratio: '1:1',
    data: [
      {
        url,
        backed_up: true,
        url_expires_at: expiresAt.toISOString(),
        url_retention_days: URL_RETENTION_DAYS,
        ...(base64 === undefined ? {} : { b64_json: base64 }),
        ...(revisedPrompt === undefined ? {} : { revised_prompt: revisedPrompt }),
      },
    ],
    price: { amount: price, currency: 'USD' },
  }
}

/** One image of a fixed size and price (specification, POST /v1/images/generations). */
export const images: Operation<ImageBody, EffectiveImage, ImageTerms, ImageUsage, ImageResult> = {
  id: 'createImageGeneration',
  path: '/v1/images/generations',
  summary: 'Generate one image',
  family: 'openai',
  category: 'image_generation',
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
