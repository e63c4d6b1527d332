import { z } from 'zod'
import { messageSchema, systemSchema, translateMessages } from './message-blocks.ts'
import { type MessageResult, messageResultSchema } from './message-result.ts'
import type { Operation } from './operation.ts'
import { maxTokensSchema, refuseUnstorableText, textModelSchema } from './request-text.ts'
import { messageResponseFormat, rawOutputSchema, samplingOptions } from './text-options.ts'
import { chargeText, pricedTokens, quoteText, type TextTerms, textTermsSchema } from './text-quote.ts'
import { type TextUsage, textRequestSchema, textUsageSchema } from './text-request.ts'
import { messageTooling } from './tool-definitions.ts'

/** Extra properties are accepted (decisions, open objects); those that text-options.ts knows are forwarded. */
const bodySchema = z
  .looseObject({
    model: textModelSchema,
    messages: z.array(messageSchema).min(1),
    // Required here, and the default declared all the same (specification, POST /v1/messages).
    max_tokens: maxTokensSchema.meta({ default: 512 }),
    stream: z.literal(false).default(false),
    tools: z.array(z.unknown()).optional(),
    system: systemSchema.optional(),
    include_thought_signatures: rawOutputSchema,
  })
  .check(refuseUnstorableText)

const effectiveRequestSchema = z.strictObject({
  operation: z.literal('createMessage'),
  model: z.string(),
  request: textRequestSchema,
  include_thought_signatures: z.boolean(),
})

export type MessageBody = z.infer<typeof bodySchema>
export type EffectiveMessage = z.infer<typeof effectiveRequestSchema>

function effectiveRequest(body: MessageBody): EffectiveMessage {
  return {
    operation: 'createMessage',
    model: body.model,
    request: {
      ...translateMessages(body.system, body.messages),
      max_output_tokens: body.max_tokens,
      ...messageTooling(body),
      ...messageResponseFormat(body),
      ...samplingOptions(body, 'stop_sequences'),
    },
    include_thought_signatures: body.include_thought_signatures === true,
  }
}

/** Text with vision and tools in the messages shape (specification, POST /v1/messages). */
export const messages: Operation<MessageBody, EffectiveMessage, TextTerms, TextUsage, MessageResult> = {
  id: 'createMessage',
  path: '/v1/messages',
  summary: 'Create a message',
  family: 'anthropic',
  category: 'text_generation',
  upload: null,
  bodySchema,
  effectiveRequestSchema,
  termsSchema: textTermsSchema,
  usageSchema: textUsageSchema,
  resultSchema: messageResultSchema,
  effectiveRequest,
  publicModel: (effective) => effective.model,
  quote: (effective, catalog) => quoteText(effective.request, effective.model, catalog),
  pricedQuantities: pricedTokens,
  charge: chargeText,
}
