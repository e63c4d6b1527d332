import { createHash } from 'node:crypto'
import type { TextOutput, TextPart, TextRequest } from '#shared/operations/text/text-request.ts'
import { deliveredText, endsAtStopSequence } from '../delivered-text.ts'
import { emptyOutput, unknownOutcome } from '../failures.ts'
import type { TextOutcome, TextProvider } from '../provider.ts'
import { unserviceable } from '../unserviceable.ts'
import { callId, createPost, type OpenAiCompatibleDependencies, readJson } from './connection.ts'
import { failureOf } from './errors.ts'
import { type CompletionWire, completionWire } from './wire.ts'

/** 65,536 tokens of the longest kind, escaped as JSON, stay far below this. */
const MAXIMUM_RESPONSE_BYTES = 16 * 1024 * 1024

export interface OpenAiCompatibleTextDependencies extends OpenAiCompatibleDependencies {
  /**
   * The field that limits the output. OpenAI's reasoning models reject `max_tokens` and its other models reject both
   * together; older self-hosted servers support only `max_tokens` and would ignore the other.
   */
  readonly outputLimit?: 'max_completion_tokens' | 'max_tokens' | 'both'
  /** `developer` is OpenAI's newer name; chat templates of open models support only `system`, the default. */
  readonly systemRole?: 'system' | 'developer'
  /** Whether the server accepts `top_k` (vLLM, llama.cpp); OpenAI rejects it. Not sent by default. */
  readonly sendTopK?: boolean
}

/**
 * Creates the text provider for an OpenAI-style server: one `POST {baseUrl}/chat/completions` per call.
 *
 * This API has no counterpart to `is_error` of a tool result; only its text is sent. A tool call whose arguments were
 * cut off by the output limit is dropped; any other call whose arguments are not a JSON object makes the outcome
 * unknown. Throws like `createPost`. Sources: see `wire.ts`.
 */
export function createOpenAiCompatibleText(dependencies: OpenAiCompatibleTextDependencies): TextProvider {
  const post = createPost(dependencies, '/chat/completions')
  return {
    async generateText(request, options) {
      const obstacle = obstacleIn(request)
      if (obstacle !== undefined) return unserviceable(`not sent: ${obstacle}`)
      const exchange = await post(requestBody(request, dependencies), {
        ...options,
        maximumResponseBytes: MAXIMUM_RESPONSE_BYTES,
      })
      if (exchange.outcome !== 'response' || exchange.status !== 200) return failureOf(exchange)
      const answer = completionWire.safeParse(readJson(exchange.bytes))
      if (!answer.success) return unknownOutcome('HTTP 200 with a malformed completion')
      return { ...readCompletion(answer.data, request), ...callId(exchange.headers, answer.data.id) }
    },
  }
}

/** Returns the first content that this API cannot carry; another vendor's API may. */
function obstacleIn({ messages }: TextRequest): string | undefined {
  for (const { role, parts } of messages) {
    for (const part of parts) {
      if (part.type !== 'image') continue
      if (role === 'assistant') return 'an image in an assistant message'
      if (part.source.kind === 'url') return 'an image that was not fetched'
    }
  }
  return undefined
}

function requestBody(request: TextRequest, settings: OpenAiCompatibleTextDependencies): Record<string, unknown> {
  const { outputLimit = 'max_completion_tokens', systemRole = 'system', sendTopK = false, upstreamModel } = settings
  const limit = request.max_output_tokens
  const tools = request.tools ?? []
  return {
    model: upstreamModel,
    messages: [
      ...(request.system === undefined || request.system === '' ? [] : [{ role: systemRole, content: request.system }]),
      ...request.messages.flatMap(({ role, parts }) =>
        role === 'user' ? userMessages(parts) : [assistantMessage(parts)],
      ),
    ],
    ...(outputLimit === 'max_tokens' ? {} : { max_completion_tokens: limit }),
    ...(outputLimit === 'max_completion_tokens' ? {} : { max_tokens: limit }),
    // OpenAI rejects a choice without tools.
    ...(tools.length === 0 ? {} : { tools: tools.map(toolOf), ...toolChoice(request.tool_choice) }),
    ...responseFormat(request.response_format),
    ...withoutUndefined({
      temperature: request.temperature,
      top_p: request.top_p,
      top_k: sendTopK ? request.top_k : undefined,
      stop: request.stop_sequences?.length ? request.stop_sequences : undefined,
      seed: request.seed,
      presence_penalty: request.presence_penalty,
      frequency_penalty: request.frequency_penalty,
    }),
  }
}

function withoutUndefined(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
}

/**
 * Returns a user turn's messages. Tool results are separate messages and must directly follow the calls, so they come
 * first.
 */
function userMessages(parts: readonly TextPart[]): Record<string, unknown>[] {
  const results = parts.flatMap((part) =>
    part.type === 'tool_result' ? [{ role: 'tool', tool_call_id: part.tool_call_id, content: part.text }] : [],
  )
  const content = parts.flatMap((part): Record<string, unknown>[] => {
    if (part.type === 'text') return [{ type: 'text', text: part.text }]
    if (part.type !== 'image' || part.source.kind !== 'inline') return []
    return [{ type: 'image_url', image_url: { url: `data:${part.source.media_type};base64,${part.source.base64}` } }]
  })
  if (content.length === 0) return results.length > 0 ? results : [{ role: 'user', content: '' }]
  // Servers with text-only chat templates always accept a plain string, but not always parts.
  const [only] = content
  const plain = content.length === 1 && only?.['type'] === 'text' ? only['text'] : content
  return [...results, { role: 'user', content: plain }]
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

function toolOf({ name, description, parameters }: NonNullable<TextRequest['tools']>[number]) {
  return { type: 'function', function: { name, ...withoutUndefined({ description }), parameters } }
}

function toolChoice(choice: TextRequest['tool_choice']): Record<string, unknown> {
  if (choice === undefined) return {}
  return { tool_choice: typeof choice === 'string' ? choice : { type: 'function', function: { name: choice.name } } }
}

function responseFormat(format: TextRequest['response_format']): Record<string, unknown> {
  if (format === undefined || format.type === 'text') return {}
  if (format.type === 'json_object') return { response_format: { type: 'json_object' } }
  // The API requires a name of these characters.
  const name = /^[\w-]{1,64}$/.test(format.name ?? '') ? format.name : 'answer'
  return { response_format: { type: 'json_schema', json_schema: { name, schema: format.schema } } }
}

const FINISH_REASONS = {
  stop: 'stop',
  eos: 'stop',
  length: 'length',
  tool_calls: 'tool_calls',
  function_call: 'tool_calls',
  content_filter: 'content_filter',
} as const satisfies Record<CompletionWire['choices'][number]['finish_reason'], TextOutput['finish_reason']>

/**
 * Maps a completion to its outcome. One without output is complete when the output limit ended it, which thinking alone
 * can use up, or when the request has stop sequences: `stop` stands for those as well as for the model's own end.
 */
function readCompletion({ id, choices, usage }: CompletionWire, request: TextRequest): TextOutcome {
  const [choice] = choices
  if (choice === undefined) return emptyOutput('HTTP 200 without a choice')
  const finishReason = FINISH_REASONS[choice.finish_reason]
  // Generated ids, because the server's would reveal the server.
  const calls = (choice.message.tool_calls ?? []).map((call, index) => ({
    id: `call_${createHash('sha256')
      .update(JSON.stringify([id, index, call.id]))
      .digest('hex')
      .slice(0, 24)}`,
    name: call.function.name,
    arguments_json: call.function.arguments.trim() === '' ? '{}' : call.function.arguments,
  }))
  const whole = calls.filter((call) => isJsonObject(call.arguments_json))
  if (whole.length < calls.length && finishReason !== 'length') {
    return unknownOutcome('HTTP 200 with tool arguments that are not a JSON object')
  }
  const text = choice.message.content ?? ''
  const refusal = deliveredText(choice.message.refusal ?? '', false)
  const isBlank = text.trim() === '' && refusal === null && whole.length === 0
  const isComplete =
    finishReason === 'length' || (finishReason === 'stop' && (text !== '' || endsAtStopSequence(request)))
  if (isBlank && !isComplete) {
    return emptyOutput(`HTTP 200 without output, finish reason ${choice.finish_reason}`)
  }
  const thinking = usage.completion_tokens_details?.reasoning_tokens
  return {
    outcome: 'generated',
    output: {
      text: deliveredText(text, isBlank),
      refusal,
      tool_calls: whole,
      // OpenAI ends a call that was forced by name with `stop`.
      finish_reason: finishReason === 'stop' && whole.length > 0 ? 'tool_calls' : finishReason,
      usage: {
        input_tokens: usage.prompt_tokens,
        output_tokens: usage.completion_tokens,
        ...(typeof thinking === 'number' ? { thinking_tokens: Math.min(thinking, usage.completion_tokens) } : {}),
      },
    },
  }
}

function isJsonObject(json: string): boolean {
  const value = readJson(new TextEncoder().encode(json))
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
