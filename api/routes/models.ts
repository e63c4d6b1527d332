import type { FastifyInstance } from 'fastify'
import type { z } from 'zod'
import type { Catalog, Model } from '#shared/catalog/catalog.ts'
import { type Category, type CategoryId, categoryOf } from '#shared/catalog/categories.ts'
import type { CommonTerms } from '#shared/catalog/common-terms.ts'
import { AppError } from '#shared/errors/app-error.ts'
import { operations } from '#shared/operations/registry.ts'
import { largestTextBytes } from '#shared/operations/text/text-quote.ts'
import { type CurrentCatalog, derived } from '../request/live-catalog.ts'
import { type categorySchema, type modelListSchema, modelSchema } from '../schemas/catalogs.ts'
import { addCachedResponse, jsonRepresentation } from './static-response.ts'

/**
 * Adds `GET /v1/models`, the only source of truth for what is available (test/contract/specification.ts, S4), and
 * `GET /v1/models/{id}` for one of them. Ids contain slashes, which only some clients encode.
 */
export function addModelRoutes(app: FastifyInstance, { catalog }: { catalog: CurrentCatalog }): void {
  const listed = derived(catalog, (current) => {
    const list = modelList(current)
    return {
      list: jsonRepresentation(list),
      models: new Map(list.data.map((model) => [model.id, jsonRepresentation(model)])),
    }
  })
  addCachedResponse(app, '/v1/models', () => listed().list)
  addCachedResponse(app, '/v1/models/*', ({ params }) => {
    const { '*': id } = params as { '*': string }
    const model = listed().models.get(id)
    if (model) return model
    throw new AppError('not_found', { message: 'There is no such model. GET /v1/models lists the available ones.' })
  })
}

export function modelList({ version, models, common }: Catalog): z.infer<typeof modelListSchema> {
  return {
    object: 'list',
    catalog_version: version,
    categories: common.categories.flatMap((category) => listedCategory(category, models)),
    data: models.map((model) => listedModel(model, common)),
    has_more: false,
    first_id: models.at(0)?.id ?? null,
    last_id: models.at(-1)?.id ?? null,
  }
}

/** Returns nothing for a category without an available model. */
function listedCategory(
  { id, label, description }: Category,
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
      endpoints: operationsOf(id).map(({ path, compatibility }) => ({ method: 'POST', path, compatibility })),
      model_ids: modelIds,
    },
  ]
}

function listedModel(model: Model, common: CommonTerms): z.infer<typeof modelSchema> {
  const { inputModalities, outputModalities } = categoryOf(model.category, common.categories)
  return modelSchema.parse({
    id: model.id,
    object: 'model',
    type: 'model',
    display_name: model.id,
    created: model.created,
    created_at: new Date(model.created * 1000).toISOString(),
    owned_by: common.owner,
    category: model.category,
    input_modalities: inputModalities,
    output_modalities: outputModalities,
    supported_endpoints: operationsOf(model.category).map(({ path }) => path),
    ...limitsOf(model, common),
  })
}

function operationsOf(categoryId: CategoryId) {
  return operations.filter(({ category }) => category === categoryId)
}

function limitsOf(model: Model, { images, speech }: CommonTerms) {
  switch (model.category) {
    case 'text_generation':
      return {
        context_window: model.contextWindow,
        max_input_bytes: largestTextBytes(model),
        max_output_tokens: model.maximumOutputTokens,
      }
    case 'image_generation':
      return {
        supported_image_sizes: images.sizes,
        supported_aspect_ratios: images.aspectRatios,
        response_formats: images.responseFormats,
      }
    case 'text_to_speech':
      return { maximum_characters: model.maximumCharacters, response_formats: speech.responseFormats }
    case 'speech_to_text':
      return {
        minimum_audio_duration_ms: model.minimumAudioDurationMs?.toString(),
        maximum_audio_duration_ms: model.maximumAudioDurationMs.toString(),
        maximum_audio_bytes: model.maximumAudioBytes,
        accepted_formats: model.acceptedFormats,
        supported_options: model.supportedOptions,
      }
  }
}
