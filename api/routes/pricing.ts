import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import type { Catalog, Model } from '#shared/catalog/catalog.ts'
import { generatedImages, generatedSpeech } from '#shared/catalog/generated-media.ts'
import { addStaticJson } from './static-answer.ts'

/** The launch promotion: callers pay the published prices and nothing on top (specification, What the service does 7). */
const SERVICE_FEE_BASIS_POINTS = 0
const PROMOTION = 'Launch promotion: no service fee.'

const usd = z.string().regex(/^\d+(\.\d+)?$/)

const pricingEntrySchema = z.looseObject({
  model: z.string(),
  category: z.enum(['text_generation', 'image_generation', 'text_to_speech', 'speech_to_text']),
  currency: z.literal('USD'),
  billing_mode: z.enum([
    'measured_tokens',
    'per_image_specification',
    'measured_characters',
    'measured_audio_duration',
  ]),
  minimum_charge_usd: usd,
  maximum_charge_usd: usd,
  input_per_million_tokens: usd.optional(),
  output_per_million_tokens: usd.optional(),
  size: z.string().optional(),
  aspect_ratio: z.string().optional(),
  supported_image_sizes: z.array(z.string()).optional(),
  supported_aspect_ratios: z.array(z.string()).optional(),
  price_per_successful_image_usd: usd.optional(),
  price_per_thousand_characters_usd: usd.optional(),
  maximum_characters: z.int().positive().optional(),
  response_formats: z.array(z.string()).optional(),
  default_response_format: z.string().optional(),
  default_voice: z.string().optional(),
  url_retention_hours: z.int().positive().optional(),
  price_per_audio_hour_usd: usd.optional(),
  maximum_audio_duration_ms: z.string().optional(),
  maximum_audio_bytes: z.int().positive().optional(),
  accepted_formats: z.array(z.string()).optional(),
})

export const pricingCatalogSchema = z.strictObject({
  object: z.literal('pricing_catalog'),
  catalog_version: z.string(),
  service_fee_basis_points: z.int().min(0),
  promotion: z.string().nullable(),
  data: z.array(pricingEntrySchema),
})

/** `GET /v1/pricing`: one entry for each available model (specification, Pricing entry). */
export function addPricingRoutes(app: FastifyInstance, { catalog }: { catalog: Catalog }): void {
  const answer: z.infer<typeof pricingCatalogSchema> = {
    object: 'pricing_catalog',
    catalog_version: catalog.version,
    service_fee_basis_points: SERVICE_FEE_BASIS_POINTS,
    promotion: PROMOTION,
    data: catalog.models.map(pricingEntry),
  }
  addStaticJson(app, '/v1/pricing', answer)
}

function pricingEntry(model: Model): z.infer<typeof pricingEntrySchema> {
  return pricingEntrySchema.parse({
    model: model.id,
    category: model.category,
    currency: 'USD',
    ...billingOf(model),
    minimum_charge_usd: model.minimumChargeUsd,
    maximum_charge_usd: model.maximumChargeUsd,
  })
}

function billingOf(model: Model) {
  switch (model.category) {
    case 'text_generation':
      return {
        billing_mode: 'measured_tokens',
        input_per_million_tokens: model.inputPerMillionTokensUsd,
        output_per_million_tokens: model.outputPerMillionTokensUsd,
      }
    case 'image_generation':
      return {
        billing_mode: 'per_image_specification',
        size: generatedImages.sizes[0],
        aspect_ratio: generatedImages.aspectRatios[0],
        supported_image_sizes: generatedImages.sizes,
        supported_aspect_ratios: generatedImages.aspectRatios,
        price_per_successful_image_usd: model.pricePerImageUsd,
        response_formats: generatedImages.responseFormats,
        default_response_format: generatedImages.defaultResponseFormat,
        url_retention_hours: generatedImages.urlRetentionHours,
      }
    case 'text_to_speech':
      return {
        billing_mode: 'measured_characters',
        price_per_thousand_characters_usd: model.pricePerThousandCharactersUsd,
        maximum_characters: model.maximumCharacters,
        response_formats: generatedSpeech.responseFormats,
        default_response_format: generatedSpeech.defaultResponseFormat,
        default_voice: model.defaultVoice,
        url_retention_hours: generatedSpeech.urlRetentionHours,
      }
    case 'speech_to_text':
      return {
        billing_mode: 'measured_audio_duration',
        price_per_audio_hour_usd: model.pricePerAudioHourUsd,
        maximum_audio_duration_ms: model.maximumAudioDurationMs.toString(),
        maximum_audio_bytes: model.maximumAudioBytes,
        accepted_formats: model.acceptedFormats,
      }
  }
}
