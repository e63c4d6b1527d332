import type { FastifyInstance } from 'fastify'
import type { z } from 'zod'
import type { Catalog, Model } from '#shared/catalog/catalog.ts'
import { categoryOf } from '#shared/catalog/categories.ts'
import type { CommonTerms } from '#shared/catalog/common-terms.ts'
import { AppError } from '#shared/errors/app-error.ts'
import { type AtomicAmount, dollarsFromAtomic } from '#shared/money/atomic-amount.ts'
import { gasMinimumCharge } from '#shared/pricing/bounded-charge.ts'
import { type CurrentCatalog, derived } from '../request/live-catalog.ts'
import { type pricingCatalogSchema, pricingEntrySchema } from '../schemas/catalogs.ts'
import { addCachedResponse, jsonRepresentation, sendRepresentation } from './static-response.ts'

/** How long prices are kept by caches while the minimum charge follows the gas, in seconds: about a block. */
const GAS_AGE_SECONDS = 2

interface PricingDependencies {
  readonly catalog: CurrentCatalog
  /** What settling a charge is expected to cost, where the minimum charge follows it; `null` otherwise. */
  readonly readChargeGas: (() => Promise<AtomicAmount>) | null
}

/** Adds `GET /v1/pricing`, with one entry for each available model (test/contract/specification.ts, R4). */
export function addPricingRoutes(app: FastifyInstance, { catalog, readChargeGas }: PricingDependencies): void {
  if (readChargeGas === null) {
    const listed = derived(catalog, (current) => jsonRepresentation(priceList(current)))
    return addCachedResponse(app, '/v1/pricing', listed)
  }
  app.get('/v1/pricing', async (request, reply) => {
    const gas = await readChargeGas().catch(whileUnavailable)
    const age = gas === null ? 'no-store' : `public, max-age=${GAS_AGE_SECONDS}`
    return sendRepresentation(request, reply, jsonRepresentation(priceList(catalog(), gas)), age)
  })
}

/** While no node answers, nothing can be quoted either; the list says what it can. */
function whileUnavailable(error: unknown): null {
  if (error instanceof AppError && error.code === 'payment_network_unavailable') return null
  throw error
}

/** Lists the prices. `expectedGas`: what settling a charge costs, where the minimum charge follows it. */
export function priceList(
  { version, models, common }: Catalog,
  expectedGas: AtomicAmount | null = null,
): z.infer<typeof pricingCatalogSchema> {
  return {
    object: 'pricing_catalog',
    catalog_version: version,
    service_fee_basis_points: common.serviceFeeBasisPoints,
    promotion: common.promotion,
    data: models.map((model) => pricingEntry(model, common, expectedGas)),
  }
}

function pricingEntry(
  model: Model,
  common: CommonTerms,
  expectedGas: AtomicAmount | null,
): z.infer<typeof pricingEntrySchema> {
  return pricingEntrySchema.parse({
    model: model.id,
    category: model.category,
    currency: 'USD',
    billing_mode: categoryOf(model.category, common.categories).billingMode,
    ...billingOf(model, common),
    minimum_charge_usd: model.minimumChargeUsd,
    maximum_charge_usd: model.maximumChargeUsd,
    ...(expectedGas !== null && {
      gas_minimum_charge_usd: dollarsFromAtomic(gasMinimumCharge(model.maximumChargeUsd, expectedGas)),
    }),
  })
}

function billingOf(model: Model, { images, speech }: CommonTerms) {
  switch (model.category) {
    case 'text_generation':
      return {
        input_per_million_tokens: model.inputPerMillionTokensUsd,
        cached_input_per_million_tokens: model.cachedInputPerMillionTokensUsd,
        cache_write_per_million_tokens: model.cacheWritePerMillionTokensUsd,
        output_per_million_tokens: model.outputPerMillionTokensUsd,
      }
    case 'image_generation':
      return {
        size: images.sizes[0],
        aspect_ratio: images.aspectRatios[0],
        supported_image_sizes: images.sizes,
        supported_aspect_ratios: images.aspectRatios,
        price_per_successful_image_usd: model.pricePerImageUsd,
        response_formats: images.responseFormats,
        default_response_format: images.defaultResponseFormat,
        url_retention_hours: images.urlRetentionHours,
      }
    case 'text_to_speech':
      return {
        price_per_thousand_characters_usd: model.pricePerThousandCharactersUsd,
        maximum_characters: model.maximumCharacters,
        response_formats: speech.responseFormats,
        default_response_format: speech.defaultResponseFormat,
        default_voice: model.defaultVoice,
        url_retention_hours: speech.urlRetentionHours,
      }
    case 'speech_to_text':
      return {
        price_per_audio_hour_usd: model.pricePerAudioHourUsd,
        minimum_audio_duration_ms: model.minimumAudioDurationMs?.toString(),
        maximum_audio_duration_ms: model.maximumAudioDurationMs.toString(),
        maximum_audio_bytes: model.maximumAudioBytes,
        accepted_formats: model.acceptedFormats,
        supported_options: model.supportedOptions,
      }
  }
}
