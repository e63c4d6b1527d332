import { z } from 'zod'
import { type Catalog, findModel } from '#shared/catalog/catalog.ts'
import { imageModel } from '#shared/catalog/published-models.ts'
import { boundedCharge, chargeBounds } from '#shared/pricing/bounded-charge.ts'
import type { PricedQuantity } from '#shared/pricing/calculation.ts'
import type { Quote } from '#shared/pricing/quote.ts'
import { defineOperation, EXAMPLE_CREATED } from './operation.ts'
import { refuseUnstorable, SHORT_BODY_BYTES, textOfCodePoints } from './request-text.ts'

const bodySchema = z
  .strictObject({
    model: z.literal(imageModel.id),
    prompt: textOfCodePoints(1, 4000),
    n: z.literal(1).meta({ type: 'integer' }).default(1),
    image_size: z.literal('1K').default('1K'),
    aspect_ratio: z.literal('1:1').default('1:1'),
    size: z.literal('1024x1024').optional().meta({ deprecated: true, description: 'Use image_size and aspect_ratio.' }),
    response_format: z.enum(['url', 'b64_json']).default('url'),
  })
  .check(refuseUnstorable)

type ImageBody = z.infer<typeof bodySchema>

const effectiveRequestSchema = z.strictObject({
  operation: z.literal('createImageGeneration'),
  model: z.string(),
  prompt: z.string(),
  n: z.literal(1),
  image_size: z.literal('1K'),
  aspect_ratio: z.literal('1:1'),
  response_format: z.enum(['url', 'b64_json']),
})

type EffectiveImage = z.infer<typeof effectiveRequestSchema>

/** Leaves out `size`, which only restates the single size there is. */
function effectiveRequest(body: ImageBody): EffectiveImage {
  const { model, prompt, n, image_size, aspect_ratio, response_format } = body
  return { operation: 'createImageGeneration', model, prompt, n, image_size, aspect_ratio, response_format }
}

const termsSchema = z.strictObject({
  price_per_image_usd: z.string(),
  ...chargeBounds,
})

type ImageTerms = z.infer<typeof termsSchema>

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

const usageSchema = z.strictObject({ images: z.literal(1) })

type ImageUsage = z.infer<typeof usageSchema>

function pricedQuantities({ images }: ImageUsage, terms: ImageTerms): readonly PricedQuantity[] {
  return [
    { usage: 'images', measured: images, atMost: null, unit: 'image', priceUsd: terms.price_per_image_usd, units: 1n },
  ]
}

function charge(usage: ImageUsage, terms: ImageTerms) {
  return boundedCharge(pricedQuantities(usage, terms), terms)
}

/** Days that the hosted URL serves the image. */
const URL_RETENTION_DAYS = 7

const resultSchema = z.strictObject({
  created: z.int(),
  model: z.literal(imageModel.id),
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

export type ImageResult = z.infer<typeof resultSchema>

export interface ImageResultFacts {
  /** Unix seconds. */
  readonly created: number
  readonly url: string
  /** Seven days after generation. */
  readonly expiresAt: Date
  /** Standard Base64 of the image; only when `b64_json` was requested. */
  readonly base64?: string
  readonly revisedPrompt?: string
  /** Decimal dollars. */
  readonly price: string
}

/** Returns the public result of `POST /v1/images/generations`. */
export function imageResult({ created, url, expiresAt, base64, revisedPrompt, price }: ImageResultFacts): ImageResult {
  return {
    created,
    model: imageModel.id,
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

/** One image of a fixed size at a fixed price. */
export const images = defineOperation({
  id: 'createImageGeneration',
  path: '/v1/images/generations',
  compatibility: 'image_generations',
  summary: 'Generate one image',
  description:
    'Generates one 1024×1024 image (1K, 1:1). The image is hosted at data[0].url for seven days, until url_expires_at; with response_format b64_json its bytes are also returned inline. The URL is a capability: anyone who has it can fetch the image.',
  requestExample: { model: imageModel.id, prompt: 'A lighthouse at dusk' },
  resultExample: {
    created: EXAMPLE_CREATED,
    model: imageModel.id,
    image_size: '1K',
    aspect_ratio: '1:1',
    data: [
      {
        url: 'https://example.com/media/token',
        backed_up: true,
        url_expires_at: '2026-01-08T00:00:00.000Z',
        url_retention_days: URL_RETENTION_DAYS,
      },
    ],
    price: { amount: imageModel.pricePerImageUsd, currency: 'USD' },
  },
  family: 'openai',
  category: 'image_generation',
  queue: 'images',
  bodyLimitBytes: SHORT_BODY_BYTES,
  upload: null,
  hostsMedia: true,
  mediaResponse: null,
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
})
