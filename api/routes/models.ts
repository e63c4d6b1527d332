import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import type { Catalog, Model } from '#shared/catalog/catalog.ts'
import { type Category, categories, categoryOf } from '#shared/catalog/categories.ts'
import { generatedImages, generatedSpeech } from '#shared/catalog/generated-media.ts'
import { addStaticJson } from './static-answer.ts'

const categoryId = z.enum(['text_generation', 'image_generation', 'text_to_speech', 'speech_to_text'])
const modality = z.enum(['text', 'image', 'video', 'audio'])

const categorySchema = z.strictObject({
  id: categoryId,
  object: z.literal('model_category'),
  label: z.string(),
  description: z.string(),
  status: z.literal('available'),
  endpoints: z.array(z.strictObject({ method: z.literal('POST'), path: z.string(), compatibility: z.string() })),
  model_ids: z.array(z.string()),
})

const modelSchema = z.looseObject({
  id: z.string(),
  object: z.literal('model'),
  /** Unix seconds. */
  created: z.int().nonnegative(),
  owned_by: z.string(),
  category: categoryId,
  input_modalities: z.array(modality),
  output_modalities: z.array(modality),
  supported_endpoints: z.array(
    z.enum([
      '/v1/chat/completions',
      '/v1/messages',
      '/v1/images/generations',
      '/v1/audio/speech',
      '/v1/audio/transcriptions',
    ]),
  ),
  context_window: z.int().positive().optional(),
  max_output_tokens: z.int().positive().optional(),
  supported_image_sizes: z.array(z.string()).optional(),
  supported_aspect_ratios: z.array(z.string()).optional(),
  maximum_characters: z.int().positive().optional(),
  response_formats: z.array(z.string()).optional(),
  maximum_audio_duration_ms: z.string().optional(),
  maximum_audio_bytes: z.int().positive().optional(),
  accepted_formats: z.array(z.string()).optional(),
})

/** The models list; `has_more`, `first_id` and `last_id` are for Anthropic's pager, which reads one page of everything. */
export const modelListSchema = z.strictObject({
  object: z.literal('list'),
  catalog_version: z.string(),
  categories: z.array(categorySchema),
  data: z.array(modelSchema),
  has_more: z.literal(false),
  first_id: z.string().nullable(),
  last_id: z.string().nullable(),
})

/** `GET /v1/models`: what is available, and the only source of truth for it (specification, GET /v1/models). */
export function addModelRoutes(app: FastifyInstance, { catalog }: { catalog: Catalog }): void {
  addStaticJson(app, '/v1/models', modelList(catalog))
}

function modelList({ version, models }: Catalog): z.infer<typeof modelListSchema> {
  return {
    object: 'list',
    catalog_version: version,
    categories: categories.flatMap((category) => listedCategory(category, models)),
    data: models.map(listedModel),
    has_more: false,
    first_id: models.at(0)?.id ?? null,
    last_id: models.at(-1)?.id ?? null,
  }
}

/** Nothing for a category without an available model. */
function listedCategory(
  { id, label, description, endpoints }: Category,
  models: readonly Model[],
): z.infer<typeof categorySchema>[] {
  const modelIds = models.filter(({ category }) => category === id).map((model) => model.id)
  if (modelIds.length === 0) return []
  return [
    {
      id,
      object: 'model_category',
      label,
      description,
      status: 'available',
      endpoints: [...endpoints],
      model_ids: modelIds,
    },
  ]
}

function listedModel(model: Model): z.infer<typeof modelSchema> {
  const { endpoints, inputModalities, outputModalities } = categoryOf(model.category)
  return modelSchema.parse({
    id: model.id,
    object: 'model',
    created: model.created,
    owned_by: 'farebox',
    category: model.category,
    input_modalities: inputModalities,
    output_modalities: outputModalities,
    supported_endpoints: endpoints.map(({ path }) => path),
    ...limitsOf(model),
  })
}

function limitsOf(model: Model) {
  switch (model.category) {
    case 'text_generation':
      return { context_window: model.contextWindow, max_output_tokens: model.maximumOutputTokens }
    case 'image_generation':
      return {
        supported_image_sizes: generatedImages.sizes,
        supported_aspect_ratios: generatedImages.aspectRatios,
        response_formats: generatedImages.responseFormats,
      }
    case 'text_to_speech':
      return { maximum_characters: model.maximumCharacters, response_formats: generatedSpeech.responseFormats }
    case 'speech_to_text':
      return {
        maximum_audio_duration_ms: model.maximumAudioDurationMs.toString(),
        maximum_audio_bytes: model.maximumAudioBytes,
        accepted_formats: model.acceptedFormats,
      }
  }
}
