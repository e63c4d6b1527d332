import { z } from 'zod'

const textPart = z.object({ type: z.literal('text'), text: z.string() })
const imagePart = z.object({ type: z.literal('image_url'), image_url: z.object({ url: z.string() }) })
const content = z.union([z.string(), z.array(textPart)])

const toolCall = z.object({
  id: z.string(),
  type: z.literal('function'),
  function: z.object({ name: z.string(), arguments: z.string() }),
})

const message = z.discriminatedUnion('role', [
  z.object({ role: z.enum(['system', 'developer']), content }),
  z.object({
    role: z.literal('user'),
    content: z.union([z.string(), z.array(z.discriminatedUnion('type', [textPart, imagePart])).min(1)]),
  }),
  z.object({
    role: z.literal('assistant'),
    content: content.nullish(),
    tool_calls: z.array(toolCall).min(1).max(128).nullish(),
  }),
  z.object({ role: z.literal('tool'), tool_call_id: z.string(), content }),
])

export type ChatMessage = z.infer<typeof message>

const name = z.string().regex(/^[\w-]{1,64}$/)
const schema = z.record(z.string(), z.unknown()).optional()
const limit = z.int().min(1).nullish()
const penalty = z.number().min(-2).max(2).nullish()

/**
 * The request of a chat completion as documented by OpenAI, which also refuses unknown fields.
 * Source: npm package `openai` 7, resources/chat/completions/completions.d.ts, ChatCompletionCreateParamsBase.
 */
export const chatRequest = z.strictObject({
  model: z.string().min(1),
  messages: z.array(message).min(1),
  max_tokens: limit,
  max_completion_tokens: limit,
  temperature: z.number().min(0).max(2).nullish(),
  top_p: z.number().min(0).max(1).nullish(),
  stop: z.union([z.string(), z.array(z.string())]).nullish(),
  seed: z.int().nullish(),
  presence_penalty: penalty,
  frequency_penalty: penalty,
  reasoning_effort: z.enum(['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']).nullish(),
  /** Of vLLM and llama.cpp. */
  chat_template_kwargs: z.record(z.string(), z.unknown()).optional(),
  parallel_tool_calls: z.boolean().optional(),
  verbosity: z.enum(['low', 'medium', 'high']).nullish(),
  service_tier: z.enum(['auto', 'default', 'flex', 'priority']).nullish(),
  store: z.boolean().nullish(),
  metadata: z.record(z.string(), z.string()).nullish(),
  user: z.string().optional(),
  n: z.literal(1).nullish(),
  stream: z.boolean().nullish(),
  stream_options: z
    .strictObject({ include_usage: z.boolean().optional(), include_obfuscation: z.boolean().optional() })
    .nullish(),
  tools: z
    .array(
      z.object({
        type: z.literal('function'),
        function: z.object({ name, description: z.string().optional(), parameters: schema }),
      }),
    )
    .min(1)
    .max(128)
    .optional(),
  tool_choice: z
    .union([
      z.enum(['auto', 'none', 'required']),
      z.object({ type: z.literal('function'), function: z.object({ name: z.string() }) }),
    ])
    .optional(),
  response_format: z
    .discriminatedUnion('type', [
      z.object({ type: z.enum(['text', 'json_object']) }),
      z.object({ type: z.literal('json_schema'), json_schema: z.object({ name, schema }) }),
    ])
    .optional(),
})

export type ChatRequest = z.infer<typeof chatRequest>

/** Returns an error unless tool results answer the calls before them and a tool choice has tools. */
export function contradictionIn({ messages, tools, tool_choice, ...limits }: ChatRequest): string | undefined {
  if (limits.stream !== true && limits.stream_options != null)
    return "The 'stream_options' parameter is only allowed when 'stream' is enabled."
  if (limits.max_tokens != null && limits.max_completion_tokens != null) {
    return "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported."
  }
  if (tool_choice !== undefined && tools === undefined)
    return "'tool_choice' is only allowed when 'tools' are specified."
  return turnFault(messages)
}

const LONGEST_ID = 40

/**
 * Source: the messages are the vendor's, as reported for a long id (camel-ai/camel#2215), a repeated one
 * (agno-agi/agno#5116) and a result without its call (itmisx/deepx-code#94), read on 28 November 2026
 */
function turnFault(messages: readonly ChatMessage[]): string | undefined {
  let open = new Set<string>()
  let answered = new Map<string, number>()
  for (const [index, each] of messages.entries()) {
    if (each.role === 'tool') {
      const { tool_call_id: id } = each
      const before = answered.get(id)
      if (before !== undefined)
        return `Invalid parameter: Duplicate value for 'tool_call_id' of '${id}', in messages[${before}] and messages[${index}].`
      if (!open.delete(id))
        return "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
      answered.set(id, index)
      continue
    }
    if (open.size > 0) return UNANSWERED
    const ids = each.role === 'assistant' ? (each.tool_calls ?? []).map(({ id }) => id) : []
    const long = ids.findIndex((id) => id.length > LONGEST_ID)
    if (long >= 0)
      return `Invalid 'messages[${index}].tool_calls[${long}].id': string too long. Expected a string with maximum length ${LONGEST_ID}, but got a string with length ${ids[long]?.length} instead.`
    open = new Set(ids)
    answered = new Map()
  }
  return open.size > 0 ? UNANSWERED : undefined
}

const UNANSWERED = "'tool_calls' must be followed by tool messages responding to each 'tool_call_id'."
