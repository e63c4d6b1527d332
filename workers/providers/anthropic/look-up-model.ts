import { z } from 'zod'
import { announcedTime, getListing, type LookUpModel, listingJson, unknownStatus } from '../model-look-up.ts'
import type { AnthropicTextDependencies } from './text.ts'

/** Source: the npm package `@anthropic-ai/sdk` 1.12, resources/models.d.ts, ModelInfo. */
const modelWire = z.object({
  id: z.string(),
  lifecycle: z.string().nullish(),
  retires_at: z.string().nullish().catch(null),
})

const notFoundWire = z.object({ error: z.object({ type: z.literal('not_found_error') }) })

/** Creates the look-up `GET {baseUrl}/v1/models/{model}`, which also finds the aliases that the list does not contain. */
export function createModelLookUp(dependencies: AnthropicTextDependencies): LookUpModel {
  const { apiKey, upstreamModel, http } = dependencies
  const url = `${dependencies.baseUrl.replace(/\/+$/, '')}/v1/models/${encodeURIComponent(upstreamModel)}`
  const headers = { 'x-api-key': apiKey, 'anthropic-version': '2023-06-01' }
  return async (_voices, options) => {
    const exchange = await getListing({ url, headers, http }, options)
    if (notFoundWire.safeParse(listingJson(exchange, 404)).success) return { outcome: 'missing' }
    const model = modelWire.safeParse(listingJson(exchange))
    if (!model.success) return unknownStatus(exchange)
    if (model.data.lifecycle === 'retired') return { outcome: 'missing' }
    return { outcome: 'listed', ...announcedTime(model.data.retires_at) }
  }
}
