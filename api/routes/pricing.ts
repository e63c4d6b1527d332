import type { FastifyInstance } from 'fastify'
import type { z } from 'zod'
import type { Catalog, Model } from '#shared/catalog/catalog.ts'
import { categoryOf } from '#shared/catalog/categories.ts'
import { generatedImages, generatedSpeech } from '#shared/catalog/generated-media.ts'
import { type pricingCatalogSchema, pricingEntrySchema } from '../schemas/pricing.ts'
import { addStaticJson } from './static-response.ts'

/**
 * The launch promotion: callers pay the published prices without a service fee (test/contract/specification.md, S7).
 */
const SERVICE_FEE_BASIS_POINTS = 0
const PROMOTION = 'Launch promotion: no service fee.'

/** Adds `GET /v1/pricing`, with one entry for each available model (test/contract/specification.md, R4). */
export function addPricingRoutes(app: FastifyInstance, { catalog }: { catalog: Catalog }): void {
  const body: z.infer<typeof pricingCatalogSchema> = {
    object: 'pricing_catalog',
    catalog_version: catalog.version,
    service_fee_basis_points: SERVICE_FEE_BASIS_POINTS,
    promotion: PROMOTION,
    data: catalog.models.map(pricingEntry),
  }
  addStaticJson(app, '/v1/pricing', body)
}

function pricingEntry(model: Model): z.infer<typeof pricingEntrySchema> {
  return pricingEntrySchema.parse({
    model: model.id,
    category: model.category,
    currency: 'USD',
    billing_mode: categoryOf(model.category).billingMode,
    ...billingOf(model),
    minimum_charge_usd: model.minimumChargeUsd,
    maximum_charge_usd: model.maximumChargeUsd,
  })
}

function billingOf(model: Model) {
  switch (model.category) {
    case 'text_generation':
      return {
        input_per_million_tokens: model.inputPerMillionTokensUsd,
        output_per_million_tokens: model.outputPerMillionTokensUsd,
      }
    case 'image_generation':
      return {
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
        price_per_thousand_characters_usd: model.pricePerThousandCharactersUsd,
        maximum_characters: model.maximumCharacters,
        response_formats: generatedSpeech.responseFormats,
        default_response_format: generatedSpeech.defaultResponseFormat,
        default_voice: model.defaultVoice,
        url_retention_hours: generatedSpeech.urlRetentionHours,
      }
    case 'speech_to_text':
      return {
        price_per_audio_hour_usd: model.pricePerAudioHourUsd,
        maximum_audio_duration_ms: model.maximumAudioDurationMs.toString(),
        maximum_audio_bytes: model.maximumAudioBytes,
        accepted_formats: model.acceptedFormats,
      }
  }
}
