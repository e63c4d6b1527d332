import { z } from 'zod'
import { modelTraits } from '#shared/operations/vendors/anthropic.ts'
import { type Adapter, type KeyedConnection, urlBelow } from '../adapter.ts'
import { announcedTime, getListing, type LookUpModel, listingJson, unknownStatus } from '../model-look-up.ts'
import { maximumOutputTokensSchema, withinOutputLimit } from '../output-limit.ts'
import { createAnthropicText } from './text.ts'

const optionsSchema = z.strictObject({
  /** A higher output limit of a request is reduced to this. */
  maximum_output_tokens: maximumOutputTokensSchema,
  /** The highest effort; requests with a low output limit get a lower one. */
  effort: z.enum(['low', 'medium', 'high', 'xhigh', 'max']).optional(),
  /** Whether the model thinks, for models where the vendor's default is the other way round. */
  thinking: z.enum(['adaptive', 'disabled']).optional(),
  /** `full` sends temperature, top_p and top_k, which current models reject. */
  sampling: z.enum(['full', 'none']).default('none'),
})

export const anthropic: Adapter = {
  needsKey: true,
  ports: (connection, options) => {
    const { maximum_output_tokens, effort, thinking, sampling } = optionsSchema.parse(options)
    const { upstreamModel } = connection
    if (thinking === 'disabled' && modelTraits(upstreamModel).withoutThinking === undefined) {
      throw new Error(
        `options: ${upstreamModel} always thinks and refuses "thinking": "disabled"; set "effort": "low" instead`,
      )
    }
    const text = createAnthropicText({
      ...connection,
      effort,
      thinking,
      acceptsSampling: sampling === 'full',
    })
    return { text: withinOutputLimit(text, maximum_output_tokens), lookUpModel: createModelLookUp(connection) }
  },
}

/** Source: the npm package `@anthropic-ai/sdk` 1.12, resources/models.d.ts, ModelInfo. */
const modelWire = z.object({
  id: z.string(),
  lifecycle: z.string().nullish(),
  retires_at: z.string().nullish().catch(null),
})

const notFoundWire = z.object({ error: z.object({ type: z.literal('not_found_error') }) })

/** Creates the look-up `GET {baseUrl}/v1/models/{model}`, which also finds the aliases that the list does not contain. */
function createModelLookUp({ baseUrl, apiKey, upstreamModel, http }: KeyedConnection): LookUpModel {
  const url = urlBelow(baseUrl, `/v1/models/${encodeURIComponent(upstreamModel)}`)
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
