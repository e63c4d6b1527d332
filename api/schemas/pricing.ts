import { z } from 'zod'
import { categories } from '#shared/catalog/categories.ts'
import { categoryIdSchema } from './category-id.ts'

const usdSchema = z.string().regex(/^\d+(\.\d+)?$/)

export const pricingEntrySchema = z.looseObject({
  model: z.string(),
  category: categoryIdSchema,
  currency: z.literal('USD'),
  billing_mode: z.enum(categories.map(({ billingMode }) => billingMode)),
  minimum_charge_usd: usdSchema,
  maximum_charge_usd: usdSchema,
  gas_minimum_charge_usd: usdSchema.optional().meta({
    description: 'What settling a charge is expected to cost at the moment, where calls cost at least that.',
  }),
  input_per_million_tokens: usdSchema.optional(),
  cached_input_per_million_tokens: usdSchema.optional().meta({
    description:
      'For input that the vendor reads from its prompt cache. Without it, such input is charged as any other.',
  }),
  cache_write_per_million_tokens: usdSchema.optional().meta({
    description:
      'For input that the vendor writes to its prompt cache. Without it, such input is charged as any other.',
  }),
  output_per_million_tokens: usdSchema.optional(),
  size: z.string().optional(),
  aspect_ratio: z.string().optional(),
  supported_image_sizes: z.array(z.string()).optional(),
  supported_aspect_ratios: z.array(z.string()).optional(),
  price_per_successful_image_usd: usdSchema.optional(),
  price_per_thousand_characters_usd: usdSchema.optional(),
  maximum_characters: z.int().positive().optional(),
  response_formats: z.array(z.string()).optional(),
  default_response_format: z.string().optional(),
  default_voice: z.string().optional(),
  url_retention_hours: z.int().positive().optional(),
  price_per_audio_hour_usd: usdSchema.optional(),
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
