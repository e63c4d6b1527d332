import { z } from 'zod'
import { defineOperation, EXAMPLE_CREATED } from './operation.ts'
import { maxTokensSchema, refuseUnstorable, textModelSchema } from './request-text.ts'
import { chatMessageSchema, translateChatMessages } from './text/chat-messages.ts'
import { chatCompletionResultSchema } from './text/chat-result.ts'
import { CHAT_OPTIONS, checkOptions } from './text/option-rules.ts'
import { textSpelling } from './text/spelling.ts'
import {
  chatOutputCeiling,
  chatResponseFormat,
  chatStyle,
  choicesSchema,
  rawOutputSchema,
  samplingOptions,
} from './text/text-options.ts'
import { chargeText, pricedTokens, quoteText, textTermsSchema } from './text/text-quote.ts'
import { textRequestSchema, textUsageSchema } from './text/text-request.ts'
import { chatTooling } from './text/tool-definitions.ts'

const DEFAULT_MAX_TOKENS = 512

/** An open object: extra properties are accepted; those of `option-rules.ts` are checked, and `text-options.ts` reads them. */
const bodySchema = z
  .looseObject({
    model: textModelSchema,
    messages: z.array(chatMessageSchema).min(1),
    max_tokens: maxTokensSchema.optional().meta({ default: DEFAULT_MAX_TOKENS }),
    stream: z.literal(false).default(false),
    tools: z.array(z.unknown()).optional(),
    response_format: z.unknown().optional(),
    n: choicesSchema,
    include_thought_signatures: rawOutputSchema,
  })
  .check(refuseUnstorable)
  .check(checkOptions(CHAT_OPTIONS))

type ChatCompletionBody = z.infer<typeof bodySchema>

const effectiveRequestSchema = z.strictObject({
  operation: z.literal('createChatCompletion'),
  model: z.string(),
  request: textRequestSchema,
  include_thought_signatures: z.boolean(),
})

type EffectiveChatCompletion = z.infer<typeof effectiveRequestSchema>

function effectiveRequest(body: ChatCompletionBody): EffectiveChatCompletion {
  return {
    operation: 'createChatCompletion',
    model: body.model,
    request: {
      ...translateChatMessages(body.messages),
      max_output_tokens: chatOutputCeiling(body.max_tokens, body, DEFAULT_MAX_TOKENS),
      ...chatTooling(body),
      ...chatResponseFormat(body.response_format),
      ...chatStyle(body),
      ...samplingOptions(body, 'stop'),
    },
    include_thought_signatures: body.include_thought_signatures === true,
  }
}

/** Text with vision, tools and structured output, in the chat completions format. */
export const chatCompletions = defineOperation({
  id: 'createChatCompletion',
  path: '/v1/chat/completions',
  compatibility: 'chat_completions',
  summary: 'Create a chat completion',
  description:
    'Chat-completions-style text generation: text, images, tools and structured output. max_tokens (default 512) is the output ceiling that the authorized maximum is computed from; the charge follows the measured tokens, hidden thinking included, which a low max_tokens keeps short. An answer that is still being written at the service’s time limit ends there with finish_reason length and is charged as far as it was written. The input is priced and limited as one token for each UTF-8 byte, its proven maximum: max_input_bytes of GET /v1/models is the most text that fits. stream must be false.',
  requestExample: {
    model: 'textmodel-3.6-flash',
    messages: [{ role: 'user', content: 'Say hello.' }],
    max_tokens: 1024,
  },
  resultExample: {
    id: 'chatcmpl-1',
    object: 'chat.completion',
    created: EXAMPLE_CREATED,
    model: 'textmodel-3.6-flash',
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: 'Hello.', refusal: null },
        logprobs: null,
        finish_reason: 'stop',
      },
    ],
    usage: {
      prompt_tokens: 4,
      completion_tokens: 2,
      total_tokens: 6,
      prompt_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 0 },
    },
  },
  family: 'openai',
  category: 'text_generation',
  queue: 'text',
  bodyLimitBytes: null,
  upload: null,
  hostsMedia: false,
  mediaResponse: null,
  bodySchema,
  effectiveRequestSchema,
  termsSchema: textTermsSchema,
  usageSchema: textUsageSchema,
  resultSchema: chatCompletionResultSchema,
  spelling: textSpelling((request) => request),
  effectiveRequest,
  publicModel: (effective) => effective.model,
  quote: (effective, catalog) => quoteText(effective.request, effective.model, catalog, { stop_sequences: 'stop' }),
  pricedQuantities: pricedTokens,
  charge: chargeText,
})
