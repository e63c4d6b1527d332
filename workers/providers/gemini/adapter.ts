import { z } from 'zod'
import { type Adapter, type KeyedConnection, urlBelow } from '../adapter.ts'
import { getListing, type LookUpModel, listingJson, unknownStatus } from '../model-look-up.ts'
import { isEffortRange, maximumOutputTokensSchema, withinOutputLimit } from '../output-limit.ts'
import { createGeminiImage } from './image.ts'
import type { GeminiThinking } from './model-traits.ts'
import { createGeminiText } from './text.ts'

const levelSchema = z.enum(['minimal', 'low', 'medium', 'high'])

const optionsSchema = z
  .strictObject({
    /** A higher output limit of a request is reduced to this. */
    maximum_output_tokens: maximumOutputTokensSchema,
    /** The highest thinking budget, for models of generation 2.5; 0 turns thinking off where the model allows it. */
    thinking_budget_tokens: z.int().min(0).optional(),
    /** The highest thinking level, for later models. Requests with a low output limit get a lower one. */
    thinking_level: levelSchema.optional(),
    /** The lowest level that the model supports; by default `minimal` for Flash-Lite, else `low`. */
    lowest_thinking_level: levelSchema.optional(),
    /** Whether temperature, topP and topK are sent; by default to models before 3.6 and 3.5 Flash-Lite. */
    sampling: z.enum(['full', 'none']).optional(),
  })
  .refine(
    (options) => options.thinking_budget_tokens === undefined || options.thinking_level === undefined,
    'thinking_budget_tokens and thinking_level exclude each other',
  )
  .refine(
    ({ thinking_level: highest, lowest_thinking_level: lowest = 'minimal' }) => isEffortRange({ highest, lowest }),
    'lowest_thinking_level is above thinking_level',
  )

type Options = z.infer<typeof optionsSchema>

export const gemini: Adapter = {
  needsKey: true,
  ports: (connection, options) => {
    const parsed = optionsSchema.parse(options)
    return {
      text: withinOutputLimit(
        createGeminiText({
          ...connection,
          thinking: thinkingOf(parsed),
          lowestLevel: parsed.lowest_thinking_level,
          ...(parsed.sampling === undefined ? {} : { samples: parsed.sampling === 'full' }),
        }),
        parsed.maximum_output_tokens,
      ),
      image: createGeminiImage(connection),
      lookUpModel: createModelLookUp(connection),
    }
  },
}

function thinkingOf({
  thinking_budget_tokens: budgetTokens,
  thinking_level: level,
}: Options): GeminiThinking | undefined {
  if (budgetTokens !== undefined) return { budgetTokens }
  return level === undefined ? undefined : { level }
}

/** Source: ai.google.dev/api/models, Model; it contains no date of retirement. */
const modelWire = z.object({ name: z.string() })

const notFoundWire = z.object({ error: z.object({ status: z.literal('NOT_FOUND') }) })

/** Creates the look-up `GET {baseUrl}/v1beta/models/{model}`. */
function createModelLookUp({ baseUrl, apiKey, upstreamModel, http }: KeyedConnection): LookUpModel {
  const url = urlBelow(baseUrl, `/v1beta/models/${upstreamModel}`)
  const headers = { 'x-goog-api-key': apiKey }
  return async (_voices, options) => {
    const exchange = await getListing({ url, headers, http }, options)
    if (notFoundWire.safeParse(listingJson(exchange, 404)).success) return { outcome: 'missing' }
    return modelWire.safeParse(listingJson(exchange)).success ? { outcome: 'listed' } : unknownStatus(exchange)
  }
}
