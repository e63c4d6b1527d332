import { z } from 'zod'
import { categories } from '#shared/catalog/categories.ts'
import { operations } from '#shared/operations/registry.ts'

const categoryIdSchema = z.enum(categories.map(({ id }) => id))

const modalitySchema = z.enum(['text', 'image', 'video', 'audio'])

export const categorySchema = z.strictObject({
  id: categoryIdSchema,
  object: z.literal('model_category'),
  label: z.string(),
  description: z.string(),
  status: z.literal('available'),
  endpoints: z.array(z.strictObject({ method: z.literal('POST'), path: z.string(), compatibility: z.string() })),
  model_ids: z.array(z.string()),
})

const leastLengthSchema = z
  .string()
  .meta({ description: 'Shorter recordings are refused with 400 audio_too_short, before a price.' })
  .optional()

const supportedOptionsSchema = z
  .looseObject({
    diarize: z.array(z.boolean()).optional(),
    tag_audio_events: z.array(z.boolean()).optional(),
    timestamps: z.array(z.enum(['none', 'word', 'character'])).optional(),
    response_format: z.array(z.enum(['json', 'verbose_json'])).optional(),
  })
  .meta({
    description:
      'For each option of a recording, the values that some vendor of the model takes at present. Others are refused with 400 request_unsupported, before a price.',
  })
  .optional()

export const modelSchema = z.looseObject({
  id: z.string(),
  object: z.literal('model'),
  /** The same for clients of the messages family. */
  type: z.literal('model'),
  display_name: z.string(),
  /** Unix seconds. */
  created: z.int().nonnegative(),
  created_at: z.iso.datetime(),
  owned_by: z.string(),
  category: categoryIdSchema,
  input_modalities: z.array(modalitySchema),
  output_modalities: z.array(modalitySchema),
  supported_endpoints: z.array(z.enum(operations.map(({ path }) => path))),
  context_window: z
    .int()
    .positive()
    .meta({
      description:
        'Tokens of input and output together. The input is counted as its proven maximum, one token for each UTF-8 byte, so a request is refused at max_input_bytes at the latest.',
    })
    .optional(),
  max_input_bytes: z
    .int()
    .nonnegative()
    .meta({
      description:
        'The most UTF-8 bytes of text that a request with a single message and max_tokens 1 may have, by context window and price bound. Every further token of max_tokens, message, tool and image leaves room for fewer.',
    })
    .optional(),
  max_output_tokens: z.int().positive().optional(),
  supported_image_sizes: z.array(z.string()).optional(),
  supported_aspect_ratios: z.array(z.string()).optional(),
  maximum_characters: z.int().positive().optional(),
  response_formats: z.array(z.string()).optional(),
  minimum_audio_duration_ms: leastLengthSchema,
  maximum_audio_duration_ms: z.string().optional(),
  maximum_audio_bytes: z.int().positive().optional(),
  accepted_formats: z.array(z.string()).optional(),
  supported_options: supportedOptionsSchema,
})

/** The model list. `has_more`, `first_id` and `last_id` are for Anthropic's pagination: everything is on one page. */
export const modelListSchema = z.strictObject({
  object: z.literal('list'),
  catalog_version: z.string(),
  categories: z.array(categorySchema),
  data: z.array(modelSchema),
  has_more: z.literal(false),
  first_id: z.string().nullable(),
  last_id: z.string().nullable(),
})

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
  minimum_audio_duration_ms: leastLengthSchema,
  maximum_audio_duration_ms: z.string().optional(),
  maximum_audio_bytes: z.int().positive().optional(),
  accepted_formats: z.array(z.string()).optional(),
  supported_options: supportedOptionsSchema,
})

export const pricingCatalogSchema = z.strictObject({
  object: z.literal('pricing_catalog'),
  catalog_version: z.string(),
  service_fee_basis_points: z.int().min(0),
  promotion: z.string().nullable(),
  data: z.array(pricingEntrySchema),
})

export const voiceSchema = z.strictObject({
  id: z.string(),
  name: z.string(),
  description: z.string(),
  provider: z.string(),
  languages: z.array(z.string()),
  models: z.array(z.string()),
  default_for_models: z.array(z.string()),
  retirement_date: z.iso.date().nullable(),
})

export const voiceListSchema = z.strictObject({
  object: z.literal('list'),
  /** The default voice of each available text-to-speech model. */
  defaults: z.record(z.string(), z.string()),
  data: z.array(voiceSchema),
})

/** One version of the catalog, with the entries of the three lists as they were. */
export const catalogSchema = z.strictObject({
  object: z.literal('catalog'),
  catalog_version: z.string(),
  service_fee_basis_points: z.int().min(0),
  promotion: z.string().nullable(),
  pricing: z.array(pricingEntrySchema),
  models: z.array(modelSchema),
  voices: z.array(voiceSchema),
})
