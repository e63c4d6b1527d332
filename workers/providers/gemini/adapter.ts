import { z } from 'zod'
import type { Adapter } from '../adapter.ts'
import { createGeminiImage } from './image.ts'
import { createGeminiText } from './text.ts'
import type { GeminiThinking } from './text-body.ts'

const optionsSchema = z
  .strictObject({
    /** For models of generation 2.5. */
    thinking_budget_tokens: z.int().min(0).optional(),
    /** For later ones. */
    thinking_level: z.enum(['minimal', 'low', 'medium', 'high']).optional(),
  })
  .refine(
    (options) => options.thinking_budget_tokens === undefined || options.thinking_level === undefined,
    'thinking_budget_tokens and thinking_level exclude each other',
  )
  .transform(({ thinking_budget_tokens: budgetTokens, thinking_level: level }): { thinking?: GeminiThinking } => {
    if (budgetTokens !== undefined) return { thinking: { budgetTokens } }
    return level === undefined ? {} : { thinking: { level } }
  })

export const gemini: Adapter = {
  needsKey: true,
  ports: (connection, options) => ({
    text: createGeminiText({ ...connection, ...optionsSchema.parse(options) }),
    image: createGeminiImage(connection),
  }),
}
