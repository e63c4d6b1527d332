import { z } from 'zod'
import { defineOperation } from './operation.ts'
import { maxTokensSchema, refuseUnstorable, textModelSchema } from './request-text.ts'
import { messageSchema, systemSchema, translateMessages } from './text/message-blocks.ts'
import { messageResultSchema } from './text/message-result.ts'
import { checkOptions, MESSAGE_OPTIONS } from './text/option-rules.ts'
import { textSpelling, withCanonicalArguments } from './text/spelling.ts'
import { messageResponseFormat, messageStyle, rawOutputSchema, samplingOptions } from './text/text-options.ts'
import { chargeText, pricedTokens, quoteText, textTermsSchema } from './text/text-quote.ts'
import { textRequestSchema, textUsageSchema } from './text/text-request.ts'
import { messageTooling } from './text/tool-definitions.ts'

/** An open object: extra properties are accepted; those of `option-rules.ts` are checked, and `text-options.ts` reads them. */
const bodySchema = z
  .looseObject({
    model: textModelSchema,
    messages: z.array(messageSchema).min(1),
    // Required, although the published schema declares a default.
    max_tokens: maxTokensSchema.meta({ default: 512 }),
    stream: z.literal(false).default(false),
    tools: z.array(z.unknown()).optional(),
    system: systemSchema.optional(),
    include_thought_signatures: rawOutputSchema,
  })
  .check(refuseUnstorable)
  .check(checkOptions(MESSAGE_OPTIONS))

type MessageBody = z.infer<typeof bodySchema>

const effectiveRequestSchema = z.strictObject({
  operation: z.literal('createMessage'),
  model: z.string(),
  request: textRequestSchema,
  include_thought_signatures: z.boolean(),
})

type EffectiveMessage = z.infer<typeof effectiveRequestSchema>

function effectiveRequest(body: MessageBody): EffectiveMessage {
  return {
    operation: 'createMessage',
    model: body.model,
    request: {
      ...translateMessages(body.system, body.messages, body['cache_control']),
      max_output_tokens: body.max_tokens,
      ...messageTooling(body),
      ...messageResponseFormat(body),
      ...messageStyle(body, body.max_tokens),
      ...samplingOptions(body, 'stop_sequences'),
    },
    include_thought_signatures: body.include_thought_signatures === true,
  }
}

/** Text with vision and tools, in the messages format. */
export const messages = defineOperation({
  id: 'createMessage',
  path: '/v1/messages',
  compatibility: 'messages',
  summary: 'Create a message',
  description:
    'Messages-style text generation: text, images, tools and a system prompt. max_tokens is required and is the output ceiling that the authorized maximum is computed from; the charge follows the measured tokens, hidden thinking included, which a low max_tokens keeps short. An answer that is still being written at the service’s time limit ends there with stop_reason max_tokens and is charged as far as it was written. The input is priced and limited as one token for each UTF-8 byte, its proven maximum: max_input_bytes of GET /v1/models is the most text that fits. stream must be false.',
  requestExample: {
    model: 'textmodel-3.6-flash',
    max_tokens: 1024,
    messages: [{ role: 'user', content: 'Say hello.' }],
  },
  resultExample: {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'textmodel-3.6-flash',
    content: [{ type: 'text', text: 'Hello.' }],
    stop_reason: 'end_turn',
    stop_sequence: null,
    usage: { input_tokens: 4, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, output_tokens: 2 },
  },
  family: 'anthropic',
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
  resultSchema: messageResultSchema,
  // The input of a call is an object here, of which a text request has the text.
  spelling: textSpelling(withCanonicalArguments),
  effectiveRequest,
  publicModel: (effective) => effective.model,
  quote: (effective, catalog) =>
    quoteText(effective.request, effective.model, catalog, { response_format: 'output_config.format' }),
  pricedQuantities: pricedTokens,
  charge: chargeText,
})
