import { z } from 'zod'
import type { Adapter } from '../adapter.ts'
import { maximumOutputTokensSchema, withinOutputLimit } from '../output-limit.ts'
import { createModelLookUp } from './look-up-model.ts'
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
    const text = createAnthropicText({
      ...connection,
      effort,
      thinking,
      acceptsSampling: sampling === 'full',
    })
    return { text: withinOutputLimit(text, maximum_output_tokens), lookUpModel: createModelLookUp(connection) }
  },
}
