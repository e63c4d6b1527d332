import { z } from 'zod'
import type { TextOutput } from './text-request.ts'

const toolCallSchema = z.looseObject({
  id: z.string(),
  type: z.literal('function'),
  function: z.looseObject({ name: z.string(), arguments: z.string() }),
})

/** The chat completion result; inner fields as the family's SDKs read them. */
export const chatCompletionResultSchema = z.looseObject({
  id: z.string(),
  object: z.literal('chat.completion'),
  created: z.int(),
  model: z.string(),
  choices: z
    .array(
      z.looseObject({
        index: z.int(),
        message: z.looseObject({
          role: z.literal('assistant'),
          content: z.string().nullable(),
          refusal: z.string().nullable(),
          tool_calls: z.array(toolCallSchema).optional(),
          thought_signatures: z.array(z.string()).optional(),
        }),
        finish_reason: z.enum(['stop', 'length', 'tool_calls', 'content_filter']),
        // Results of earlier versions have none.
        stop_reason: z.string().nullable().optional().meta({
          description: 'The one of your stop sequences that ended the answer, where the model’s vendor says so.',
        }),
        logprobs: z.null(),
      }),
    )
    .length(1),
  usage: z.looseObject({
    prompt_tokens: z.int().min(0),
    completion_tokens: z.int().min(0),
    total_tokens: z.int().min(0),
    // Results of earlier versions have none.
    prompt_tokens_details: z
      .looseObject({ cached_tokens: z.int().min(0), cache_write_tokens: z.int().min(0) })
      .optional(),
    completion_tokens_details: z.looseObject({ reasoning_tokens: z.int().min(0) }),
  }),
})

export type ChatCompletionResult = z.infer<typeof chatCompletionResultSchema>

/** The fields of a text result that do not come from the model's output. */
export interface TextResultFacts {
  /** Without the family's prefix. */
  readonly id: string
  /** Unix seconds. */
  readonly created: number
  /** The public model id. */
  readonly model: string
  /** Whether the caller asked for raw output; otherwise the vendor's thought signatures are dropped. */
  readonly includeThoughtSignatures: boolean
}

/** Returns the public result of `POST /v1/chat/completions`. `completion_tokens` includes hidden thinking. */
export function chatCompletionResult(facts: TextResultFacts, output: TextOutput): ChatCompletionResult {
  const { text, refusal, tool_calls: calls, usage } = output
  return {
    id: `chatcmpl-${facts.id}`,
    object: 'chat.completion',
    created: facts.created,
    model: facts.model,
    choices: [
      {
        index: 0,
        message: {
          role: 'assistant',
          content: text,
          refusal,
          ...(calls.length === 0 ? {} : { tool_calls: calls.map(publicToolCall) }),
          ...thoughtSignatures(facts, output),
        },
        finish_reason: finishReason(output),
        ...(output.stop_sequence === undefined ? {} : { stop_reason: output.stop_sequence }),
        logprobs: null,
      },
    ],
    usage: {
      prompt_tokens: usage.input_tokens,
      completion_tokens: usage.output_tokens,
      total_tokens: usage.input_tokens + usage.output_tokens,
      prompt_tokens_details: {
        cached_tokens: usage.cached_input_tokens ?? 0,
        cache_write_tokens: usage.cache_write_tokens ?? 0,
      },
      completion_tokens_details: { reasoning_tokens: usage.thinking_tokens ?? 0 },
    },
  }
}

/** Returns the finish reason. Some vendors end a turn of tool calls with `stop`; clients expect `tool_calls`. */
export function finishReason({ finish_reason: reason, tool_calls: calls }: TextOutput): TextOutput['finish_reason'] {
  return reason === 'stop' && calls.length > 0 ? 'tool_calls' : reason
}

/** Returns the property that results of both families have when raw output was requested. */
export function thoughtSignatures(
  { includeThoughtSignatures }: TextResultFacts,
  { thought_signatures: signatures = [] }: TextOutput,
): { thought_signatures?: string[] } {
  return includeThoughtSignatures ? { thought_signatures: [...signatures] } : {}
}

function publicToolCall({ id, name, arguments_json: text }: TextOutput['tool_calls'][number]) {
  return { id, type: 'function' as const, function: { name, arguments: text } }
}
