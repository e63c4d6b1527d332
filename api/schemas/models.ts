import { z } from 'zod'
import { operations } from '#shared/operations/registry.ts'
import { categoryIdSchema } from './category-id.ts'

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
  maximum_audio_duration_ms: z.string().optional(),
  maximum_audio_bytes: z.int().positive().optional(),
  accepted_formats: z.array(z.string()).optional(),
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
