import type { Effort } from '#shared/operations/text/effort.ts'
import type { TextPart, TextRequest } from '#shared/operations/text/text-request.ts'
import type { OpenAiCarriedOptions } from '#shared/operations/vendors/openai-compatible.ts'
import { withUniqueCallIds } from '../call-ids.ts'
import { effortWithin } from '../output-limit.ts'
import { type Turn, turnsOf, withPairs } from '../turns.ts'

/** The deployment's settings of a text body. */
export interface OpenAiTextSettings {
  /** The server's model name. */
  readonly upstreamModel: string
  /**
   * The field that limits the output. OpenAI's reasoning models reject `max_tokens` and its other models reject both
   * together; older self-hosted servers support only `max_tokens` and would ignore the other.
   */
  readonly outputLimit?: 'max_completion_tokens' | 'max_tokens' | 'both'
  /** `developer` is OpenAI's newer name; chat templates of open models support only `system`, the default. */
  readonly systemRole?: 'system' | 'developer'
  /** Whether the server accepts `top_k` (vLLM, llama.cpp); OpenAI rejects it. Not sent by default. */
  readonly sendTopK?: boolean
  /** For requests with a high output limit; absent: none is sent. */
  readonly reasoningEffort?: Effort | undefined
  /** The lowest effort that the model supports; default `low`. */
  readonly lowestReasoningEffort?: Effort | undefined
  /** Whether the model calls functions while it reasons; otherwise requests with tools get the effort `none`. */
  readonly reasonsWithTools?: boolean
  /** When temperature, top_p, top_k and penalties are sent; default `when_not_reasoning`. */
  readonly sampling?: 'full' | 'when_not_reasoning' | 'none' | undefined
  /** Which requests the server takes; by default those that OpenAI's models without reasoning take. */
  readonly carried?: Partial<OpenAiCarriedOptions>
  /** Sent as `chat_template_kwargs`, by which vLLM and llama.cpp turn thinking of open models on and off. */
  readonly chatTemplateArguments?: Readonly<Record<string, unknown>> | undefined
}

/** Builds the body of `POST /chat/completions` for a text request whose images are inline. */
export function textBody(request: TextRequest, settings: OpenAiTextSettings): Record<string, unknown> {
  const { outputLimit = 'max_completion_tokens', systemRole = 'system', upstreamModel } = settings
  const limit = request.max_output_tokens
  const tools = request.tools ?? []
  const effort = effortOf(request, settings)
  return {
    model: upstreamModel,
    messages: [
      ...(request.system === undefined || request.system === '' ? [] : [{ role: systemRole, content: request.system }]),
      ...turnsOf(withUniqueCallIds(withPairs(request.messages), CALL_ID)).flatMap(turnMessages),
    ],
    ...(outputLimit === 'max_tokens' ? {} : { max_completion_tokens: limit }),
    ...(outputLimit === 'max_completion_tokens' ? {} : { max_tokens: limit }),
    // OpenAI rejects a choice without tools.
    ...(tools.length === 0 ? {} : { tools: tools.map(toolOf), ...toolChoice(request) }),
    ...responseFormat(request.response_format),
    ...withoutUndefined({
      reasoning_effort: effort,
      verbosity: request.verbosity,
      chat_template_kwargs: settings.chatTemplateArguments,
      stop: request.stop_sequences?.length ? request.stop_sequences : undefined,
      seed: request.seed,
      ...(samples(settings, effort) ? sampling(request, settings) : {}),
    }),
  }
}

/** Returns the effort to send; `undefined` where none is configured, since most servers of this API reject the field. */
function effortOf(request: TextRequest, settings: OpenAiTextSettings): Effort | undefined {
  const { reasoningEffort: highest, lowestReasoningEffort: lowest = 'low', reasonsWithTools = true } = settings
  if (highest === undefined) return undefined
  if (!reasonsWithTools && (request.tools ?? []).length > 0) return 'none'
  return effortWithin(request, { highest, lowest })
}

/** OpenAI's models sample only while they do not reason. */
function samples({ sampling }: OpenAiTextSettings, effort: Effort | undefined): boolean {
  const isReasoning = effort !== undefined && effort !== 'none'
  return sampling === undefined || sampling === 'when_not_reasoning' ? !isReasoning : sampling === 'full'
}

function sampling(request: TextRequest, { sendTopK = false }: OpenAiTextSettings): Record<string, unknown> {
  return {
    temperature: request.temperature,
    top_p: request.top_p,
    top_k: sendTopK ? request.top_k : undefined,
    presence_penalty: request.presence_penalty,
    frequency_penalty: request.frequency_penalty,
  }
}

function withoutUndefined(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
}

/**
 * OpenAI refuses longer ids ("Expected a string with maximum length 40", camel-ai/camel#2215) and repeated ones ("Duplicate
 * value for 'tool_call_id'", agno-agi/agno#5116), read on 28 November 2026.
 */
const CALL_ID = /^[^]{1,40}$/

/**
 * Returns a turn's messages. Tool results are separate messages and must directly follow the calls: results come first, and
 * the messages of an assistant turn that does not end with its calls become one.
 */
function turnMessages({ role, messages }: Turn): Record<string, unknown>[] {
  const parts = messages.flat()
  if (role === 'user') return [...parts.flatMap(resultMessages), ...messages.flatMap(userMessages)]
  const callsEarlier = messages.slice(0, -1).some((earlier) => earlier.some(({ type }) => type === 'tool_call'))
  return callsEarlier ? [assistantMessage(parts)] : messages.map(assistantMessage)
}

function resultMessages(part: TextPart): Record<string, unknown>[] {
  return part.type === 'tool_result' ? [{ role: 'tool', tool_call_id: part.tool_call_id, content: part.text }] : []
}

/** Returns the message of what is no tool result. */
function userMessages(parts: readonly TextPart[]): Record<string, unknown>[] {
  const content = parts.flatMap((part): Record<string, unknown>[] => {
    if (part.type === 'text') return [{ type: 'text', text: part.text }]
    if (part.type !== 'image' || part.source.kind !== 'inline') return []
    return [{ type: 'image_url', image_url: { url: `data:${part.source.media_type};base64,${part.source.base64}` } }]
  })
  if (content.length === 0)
    return parts.some(({ type }) => type === 'tool_result') ? [] : [{ role: 'user', content: '' }]
  // Servers with text-only chat templates always accept a plain string, but not always parts.
  const [only] = content
  const plain = content.length === 1 && only?.['type'] === 'text' ? only['text'] : content
  return [{ role: 'user', content: plain }]
}

function assistantMessage(parts: readonly TextPart[]): Record<string, unknown> {
  const text = parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('')
  const calls = parts.flatMap((part) =>
    part.type === 'tool_call'
      ? [{ id: part.id, type: 'function', function: { name: part.name, arguments: part.arguments_json } }]
      : [],
  )
  if (calls.length === 0) return { role: 'assistant', content: text }
  return { role: 'assistant', content: text === '' ? null : text, tool_calls: calls }
}

function toolOf({ name, description, parameters, strict }: NonNullable<TextRequest['tools']>[number]) {
  return { type: 'function', function: { name, ...withoutUndefined({ description, strict }), parameters } }
}

function toolChoice({ tool_choice: choice, parallel_tool_calls }: TextRequest): Record<string, unknown> {
  const named = typeof choice === 'object' ? { type: 'function', function: { name: choice.name } } : choice
  return withoutUndefined({ tool_choice: named, parallel_tool_calls })
}

function responseFormat(format: TextRequest['response_format']): Record<string, unknown> {
  if (format === undefined || format.type === 'text') return {}
  if (format.type === 'json_object') return { response_format: { type: 'json_object' } }
  // The API requires a name of these characters.
  const name = /^[\w-]{1,64}$/.test(format.name ?? '') ? format.name : 'answer'
  const { description, schema, strict } = format
  const named = { name, ...withoutUndefined({ description, strict }), schema }
  return { response_format: { type: 'json_schema', json_schema: named } }
}
