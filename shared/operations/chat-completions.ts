import { z } from 'zod'
import { chatMessageSchema, translateChatMessages } from './chat-messages.ts'
import { type ChatCompletionResult, chatCompletionResultSchema } from './chat-result.ts'
import type { Operation } from './operation.ts'
import { maxTokensSchema, refuseUnstorableText, textModelSchema } from './request-text.ts'
import { chatOutputCeiling, chatResponseFormat, rawOutputSchema, samplingOptions } from './text-options.ts'
import { chargeText, pricedTokens, quoteText, type TextTerms, textTermsSchema } from './text-quote.ts'
import { type TextUsage, textRequestSchema, textUsageSchema } from './text-request.ts'
import { chatTooling } from './tool-definitions.ts'

/** Specification, POST /v1/chat/completions. */
const DEFAULT_MAX_TOKENS = 512

/** Extra properties are accepted (decisions, open objects); those that text-options.ts knows are forwarded. */
const bodySchema = z
  .looseObject({
    model: textModelSchema,
    messages: z.array(chatMessageSchema).min(1),
    max_tokens: maxTokensSchema.optional().meta({ default: DEFAULT_MAX_TOKENS }),
    stream: z.literal(false).default(false),
    tools: z.array(z.unknown()).optional(),
    response_format: z.unknown().optional(),
    include_thought_signatures: rawOutputSchema,
  })
  .check(refuseUnstorableText)

const effectiveRequestSchema = z.strictObject({
  operation: z.literal('createChatCompletion'),
  model: z.string(),
  request: textRequestSchema,
  include_thought_signatures: z.boolean(),
})

export type ChatCompletionBody = z.infer<typeof bodySchema>
export type EffectiveChatCompletion = z.infer<typeof effectiveRequestSchema>

function effectiveRequest(body: ChatCompletionBody): EffectiveChatCompletion {
  return {
    operation: 'createChatCompletion',
    model: body.model,
    request: {
      ...translateChatMessages(body.messages),
      max_output_tokens: chatOutputCeiling(body.max_tokens, body, DEFAULT_MAX_TOKENS),
      ...chatTooling(body),
      ...chatResponseFormat(body.response_format),
      ...samplingOptions(body, 'stop'),
    },
    include_thought_signatures: body.include_thought_signatures === true,
  }
}

/** Text with vision, tools and structured output (specification, POST /v1/chat/completions). */
export const chatCompletions: Operation<
  ChatCompletionBody,
  EffectiveChatCompletion,
  TextTerms,
  TextUsage,
  ChatCompletionResult
> = {
  id: 'createChatCompletion',
  path: '/v1/chat/completions',
  summary: 'Create a chat completion',
  family: 'openai',
  category: 'text_generation',
  upload: null,
  bodySchema,
  effectiveRequestSchema,
  termsSchema: textTermsSchema,
  usageSchema: textUsageSchema,
  resultSchema: chatCompletionResultSchema,
  effectiveRequest,
  publicModel: (effective) => effective.model,
  quote: (effective, catalog) => quoteText(effective.request, effective.model, catalog),
  pricedQuantities: pricedTokens,
  charge: chargeText,
}
