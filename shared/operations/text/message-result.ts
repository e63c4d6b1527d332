import { z } from 'zod'
import { JsonSource } from '#shared/json/json-source.ts'
import { finishReason, type TextResultFacts, thoughtSignatures } from './chat-result.ts'
import { type TextOutput, uncachedInputTokens } from './text-request.ts'
import { parseToolArguments } from './tool-arguments.ts'
import { writtenObjectSchema } from './written-object.ts'

const contentBlockSchema = z.discriminatedUnion('type', [
  z.looseObject({ type: z.literal('text'), text: z.string() }),
  z.looseObject({
    type: z.literal('tool_use'),
    id: z.string(),
    name: z.string(),
    input: writtenObjectSchema,
  }),
])

/** The message result; inner fields as the family's SDKs read them. */
export const messageResultSchema = z.looseObject({
  id: z.string(),
  type: z.literal('message'),
  role: z.literal('assistant'),
  model: z.string(),
  content: z.array(contentBlockSchema),
  stop_reason: z.enum(['end_turn', 'max_tokens', 'tool_use', 'refusal', 'stop_sequence']),
  stop_sequence: z
    .string()
    .nullable()
    .meta({ description: 'The one of your stop_sequences that ended the answer, where the model’s vendor says so.' }),
  usage: z.looseObject({
    input_tokens: z.int().min(0),
    // Results of earlier versions have neither.
    cache_creation_input_tokens: z.int().min(0).optional(),
    cache_read_input_tokens: z.int().min(0).optional(),
    output_tokens: z.int().min(0),
  }),
  thought_signatures: z.array(z.string()).optional(),
})

export type MessageResult = z.infer<typeof messageResultSchema>

const STOP_REASONS = {
  stop: 'end_turn',
  length: 'max_tokens',
  tool_calls: 'tool_use',
  content_filter: 'refusal',
} as const satisfies Record<TextOutput['finish_reason'], MessageResult['stop_reason']>

/**
 * Returns the public result of `POST /v1/messages`. `output_tokens` includes hidden thinking. As in the family's own
 * API, `input_tokens` is the input without the two counts of the prompt cache.
 */
export function messageResult(facts: TextResultFacts, output: TextOutput): MessageResult {
  const { text, refusal, tool_calls: calls, usage } = output
  return {
    id: `msg_${facts.id}`,
    type: 'message',
    role: 'assistant',
    model: facts.model,
    content: [...textBlocks(text), ...textBlocks(refusal), ...calls.map(toolUseBlock)],
    stop_reason: stopReason(output),
    stop_sequence: output.stop_sequence ?? null,
    usage: {
      input_tokens: uncachedInputTokens(usage),
      cache_creation_input_tokens: usage.cache_write_tokens ?? 0,
      cache_read_input_tokens: usage.cached_input_tokens ?? 0,
      output_tokens: usage.output_tokens,
    },
    ...thoughtSignatures(facts, output),
  }
}

function stopReason(output: TextOutput): MessageResult['stop_reason'] {
  if (output.refusal !== null) return 'refusal'
  const reason = finishReason(output)
  return reason === 'stop' && output.stop_sequence !== undefined ? 'stop_sequence' : STOP_REASONS[reason]
}

function textBlocks(text: string | null) {
  return text === null || text === '' ? [] : [{ type: 'text' as const, text }]
}

function toolUseBlock({ id, name, arguments_json: text }: TextOutput['tool_calls'][number]) {
  return { type: 'tool_use' as const, id, name, input: inputOf(text) }
}

function inputOf(argumentsText: string): JsonSource {
  const source = parseToolArguments(argumentsText) ? JsonSource.parse(argumentsText) : undefined
  if (source) return source
  return new JsonSource(argumentsText.trim() === '' ? '{}' : JSON.stringify({ raw_arguments: argumentsText }))
}
