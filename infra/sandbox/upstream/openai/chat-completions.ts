import { serverEvent } from '../server-event.ts'
import { ok, type VendorAnswer, type VendorRequest } from '../vendor-route.ts'
import { inCharacters, tokenPieces } from '../writing/count-tokens.ts'
import type { TextCall, Turn, TurnPart } from '../writing/text-call.ts'
import { textRoute } from '../writing/text-route.ts'
import type { WrittenAnswer } from '../writing/write-answer.ts'
import { invalidRequest, readValid, refuseKey } from './answers.ts'
import { type ChatMessage, chatRequest, contradictionIn } from './chat-request.ts'
import { limitExceededBy, thinkingOf } from './model-limits.ts'

interface ChatCall extends TextCall {
  readonly countsUsage: boolean
}

/**
 * Creates `POST /v1/chat/completions` as documented by OpenAI. OpenAI's reasoning models, and those whose
 * name starts with `thinking`, spend hidden tokens. A blocked prompt is refused by policy.
 *
 * Source: developers.openai.com/api/reference, Chat Completions; npm package `openai` 7.
 */
export function createChatCompletionsRoute() {
  return textRoute<ChatCall>({
    path: '/v1/chat/completions',
    refuseKey,
    read: readCall,
    unreadableImage: invalidRequest('An image_url is not a data URI of an image.', 'messages', 'invalid_image'),
    write: writeCompletion,
    stream: completionChunks,
  })
}

function readCall({ json }: VendorRequest): ChatCall | VendorAnswer {
  const request = readValid(chatRequest, json)
  if ('status' in request) return request
  const contradiction = contradictionIn(request)
  const refusal = limitExceededBy(request) ?? (contradiction === undefined ? undefined : invalidRequest(contradiction))
  if (refusal !== undefined) return refusal
  const { model, messages, tools, tool_choice: choice, response_format: format, stream } = request
  return {
    model,
    isStreamed: stream === true,
    countsUsage: stream !== true || request.stream_options?.include_usage === true,
    turns: turnsOf(messages),
    tools: tools?.map(({ function: { name, description, parameters } }) => ({ name, description, parameters })),
    toolChoice: typeof choice === 'object' ? choice.function : choice,
    callsOne: request.parallel_tool_calls === false,
    responseFormat:
      format?.type === 'json_schema' ? { type: format.type, schema: format.json_schema.schema ?? {} } : format,
    cache: CACHE,
    maxOutputTokens: request.max_completion_tokens ?? request.max_tokens ?? undefined,
    stopSequences: [request.stop ?? []].flat(),
    thinking: thinkingOf(request),
  }
}

/**
 * The cache of models before GPT-5.6, whose writes cost nothing: "Cache hits require an exact, repeated prefix match
 * and works automatically for prompts containing 1024 tokens or more, with cache hits occurring in increments of 128
 * tokens." Tools and images are parts of the prefix.
 *
 * Source: github.com/openai/openai-cookbook, examples/Prompt_Caching_201.ipynb, read on 26 November 2026
 */
const CACHE = { minimum: 1024, step: 128 }

/** Returns the turns, of which one has all results that follow each other. */
function turnsOf(messages: readonly ChatMessage[]): Turn[] {
  const turns: { role: string; parts: TurnPart[] }[] = []
  for (const message of messages) {
    const last = turns.at(-1)
    if (message.role === 'tool' && last?.role === 'tool') last.parts.push(...partsOf(message))
    else turns.push({ role: message.role, parts: partsOf(message) })
  }
  return turns
}

function partsOf(message: ChatMessage): TurnPart[] {
  const kind = message.role === 'tool' ? 'result' : 'text'
  const content =
    typeof message.content === 'string' ? [{ type: 'text' as const, text: message.content }] : message.content
  const calls = message.role === 'assistant' ? (message.tool_calls ?? []) : []
  return [
    ...(content ?? []).map((part): TurnPart =>
      part.type === 'text'
        ? { kind, content: part.text }
        : { kind: 'image', content: DATA_URI.exec(part.image_url.url)?.[1] ?? '' },
    ),
    ...calls.map(({ function: { name, arguments: json } }): TurnPart => ({ kind: 'call', content: `${name} ${json}` })),
  ]
}

const DATA_URI = /^data:image\/[a-z]+;base64,(.+)$/

const FINISH_REASONS = {
  stop: 'stop',
  stop_sequence: 'stop',
  length: 'length',
  tool_calls: 'tool_calls',
  refused: 'stop',
} as const satisfies Record<Exclude<WrittenAnswer['finishReason'], 'blocked'>, string>

function writeCompletion(answer: WrittenAnswer, { model, countsUsage }: ChatCall, digest: string): VendorAnswer {
  const { finishReason } = answer
  if (finishReason === 'blocked') {
    const message = 'Invalid prompt: your prompt was flagged as potentially violating our usage policy.'
    return invalidRequest(message, null, 'invalid_prompt')
  }
  const id = digest.slice(0, 24)
  const isRefusal = finishReason === 'refused'
  const toolCalls = answer.toolCalls.map((call, index) => ({
    id: `call_${id.slice(0, 12)}_${index}`,
    type: 'function',
    function: { name: call.name, arguments: JSON.stringify(call.arguments) },
  }))
  const message = {
    role: 'assistant',
    content: isRefusal ? null : answer.text,
    refusal: isRefusal ? answer.text : null,
    ...(toolCalls.length === 0 ? {} : { tool_calls: toolCalls }),
  }
  const usage = {
    prompt_tokens: answer.inputTokens,
    completion_tokens: answer.outputTokens,
    total_tokens: answer.inputTokens + answer.outputTokens,
    prompt_tokens_details: { cached_tokens: answer.cache.cached, audio_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: answer.thinkingTokens },
  }
  const completion = {
    id: `chatcmpl-${id}`,
    object: 'chat.completion',
    created: Math.floor(Date.now() / 1000),
    model,
    choices: [{ index: 0, message, logprobs: null, finish_reason: FINISH_REASONS[finishReason] }],
    usage: countsUsage ? usage : undefined,
  }
  return ok(completion satisfies Completion, { 'x-request-id': `req_${id}` })
}

interface Completion {
  readonly choices: readonly {
    readonly message: {
      readonly content: string | null
      readonly refusal: string | null
      readonly tool_calls?: readonly { readonly id: string; readonly function: { name: string; arguments: string } }[]
    }
    readonly finish_reason: string
  }[]
  readonly usage: object | undefined
}

/**
 * Divides a completion into the chunks of a stream, one for each token of text. The counts are in a chunk of their own,
 * for requests with `include_usage`. Source: developers.openai.com/api/reference, ChatCompletionChunk
 */
function completionChunks(body: unknown): string[] {
  const { choices, usage, ...known } = body as Completion
  const chunk = (fields: object) => serverEvent({ ...known, object: 'chat.completion.chunk', ...fields })
  const part = (delta: object, finish_reason: string | null = null) =>
    chunk({ choices: [{ index: 0, delta, logprobs: null, finish_reason }], ...(usage ? { usage: null } : {}) })
  return [
    ...choices.flatMap(({ message: { content, refusal, tool_calls: calls = [] }, finish_reason }) => [
      part({ role: 'assistant', content: content === null ? null : '', refusal: null }),
      ...tokenPieces(content ?? '').map((text) => part({ content: text })),
      ...tokenPieces(refusal ?? '').map((text) => part({ refusal: text })),
      ...calls.flatMap(({ id, function: { name, arguments: json } }, index) => [
        part({ tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }] }),
        ...inCharacters(json).map((piece) => part({ tool_calls: [{ index, function: { arguments: piece } }] })),
      ]),
      part({}, finish_reason),
    ]),
    ...(usage ? [chunk({ choices: [], usage })] : []),
    'data: [DONE]\n\n',
  ]
}
