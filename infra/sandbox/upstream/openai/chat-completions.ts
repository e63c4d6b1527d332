import { createHash } from 'node:crypto'
import { inGroups, serverEvent } from '../server-event.ts'
import type { VendorAnswer, VendorRequest, VendorRoute } from '../vendor-route.ts'
import { tokenPieces } from '../writing/count-tokens.ts'
import { readJson } from '../writing/json-request.ts'
import { createPromptCache, imageBlockText, type PromptCache } from '../writing/prompt-cache.ts'
import { readImage, type SeenImage } from '../writing/read-image.ts'
import { type WritingTask, type WrittenAnswer, writeAnswer } from '../writing/write-answer.ts'
import { invalidRequest, refuseKey } from './answers.ts'
import { type ChatMessage, type ChatRequest, chatRequest, contradictionIn, textOf } from './chat-request.ts'
import { limitExceededBy, thinkingOf } from './model-limits.ts'

/**
 * Creates `POST /v1/chat/completions` as documented by OpenAI. OpenAI's reasoning models, and those whose
 * name starts with `thinking`, spend hidden tokens. A prompt with "please block" is refused by policy.
 *
 * Source: developers.openai.com/api/reference, Chat Completions; npm package `openai` 7.
 */
export function createChatCompletionsRoute(): VendorRoute {
  const cache = createPromptCache()
  return {
    path: '/v1/chat/completions',
    refuseKey,
    answer: (request) => complete(request, cache),
    emptied: (body) => withoutOutput(body as Completion),
  }
}

type Completion = ReturnType<typeof completionBody>

function complete(request: VendorRequest, cache: PromptCache): VendorAnswer {
  const parsed = chatRequest.safeParse(readJson(request.body))
  if (!parsed.success) {
    const [issue] = parsed.error.issues
    const isUnknown = issue?.code === 'unrecognized_keys'
    return invalidRequest(
      isUnknown ? 'Unknown parameter.' : 'Invalid value.',
      isUnknown ? issue.keys.join(', ') : (issue?.path.join('.') ?? null),
      isUnknown ? 'unknown_parameter' : 'invalid_value',
    )
  }
  const limit = limitExceededBy(parsed.data)
  if (limit !== undefined) return limit
  const contradiction = contradictionIn(parsed.data)
  if (contradiction !== undefined) return invalidRequest(contradiction)
  const task = taskOf(parsed.data)
  if (typeof task === 'string') return invalidRequest(task, 'messages', 'invalid_image')
  if (/\bplease block\b/i.test(task.texts.at(-1) ?? '')) {
    const message = 'Invalid prompt: your prompt was flagged as potentially violating our usage policy.'
    return invalidRequest(message, null, 'invalid_prompt')
  }
  const id = createHash('sha256').update(request.body).digest('hex').slice(0, 24)
  const headers = { 'x-request-id': `req_${id}` }
  return {
    status: 200,
    accepted: true,
    headers,
    ...streaming(parsed.data),
    body: completionBody(writeAnswer(task), parsed.data.model, id, cachedTokens(cache, parsed.data)),
  }
}

/**
 * Reads the cache of models before GPT-5.6, whose writes cost nothing: "Cache hits require an exact, repeated prefix match
 * and works automatically for prompts containing 1024 tokens or more, with cache hits occurring in increments of 128
 * tokens." Tools and images are parts of the prefix.
 *
 * Source: github.com/openai/openai-cookbook, examples/Prompt_Caching_201.ipynb, read on 26 November 2026
 */
function cachedTokens(cache: PromptCache, { model, tools = [], messages }: ChatRequest): number {
  const blocks = [
    ...tools.map(({ function: tool }) => ({ label: 'tool', text: JSON.stringify(tool) })),
    ...messages.flatMap((message) => [
      ...imageUrls(message).map((url) => ({ label: 'image', text: imageBlockText(url) })),
      { label: message.role, text: wholeTextOf(message) },
    ]),
  ]
  return cache.readSteps(model, blocks, { minimum: 1024, step: 128 })
}

function wholeTextOf(message: ChatMessage): string {
  if (message.role === 'user') return userText(message.content)
  const calls = message.role === 'assistant' ? (message.tool_calls ?? []) : []
  return [textOf(message.content), ...calls.map(({ function: call }) => `${call.name} ${call.arguments}`)]
    .join(' ')
    .trim()
}

function streaming({ stream, stream_options: options }: ChatRequest): Pick<VendorAnswer, 'stream'> {
  if (stream !== true) return {}
  const isAsked = options?.include_usage === true
  return { stream: (body, { reportsUsage }) => completionChunks(body, { reportsUsage: isAsked && reportsUsage }) }
}

/** Returns the task, or the reason for refusing the request. */
function taskOf(request: ChatRequest): WritingTask | string {
  const images: SeenImage[] = []
  for (const url of request.messages.flatMap(imageUrls)) {
    const base64 = /^data:image\/[a-z]+;base64,(?<base64>.+)$/.exec(url)?.groups?.['base64']
    const image = base64 === undefined ? undefined : readImage(Buffer.from(base64, 'base64'))
    if (image === undefined) return 'An image_url is not a data URI of an image.'
    images.push(image)
  }
  const lastSpoken = request.messages.findLastIndex(({ role }) => role !== 'tool')
  const { tools, tool_choice: choice, response_format: format } = request
  const limit = request.max_completion_tokens ?? request.max_tokens
  return {
    texts: request.messages.flatMap((message) => textsOf(message, lastSpoken, request.messages)),
    toolResults: request.messages
      .slice(lastSpoken + 1)
      .map((message) => textOf(message.role === 'tool' ? message.content : '')),
    tools: tools?.map(({ function: { name, description, parameters } }) => ({ name, description, parameters })),
    toolChoice: typeof choice === 'object' ? choice.function : choice,
    callsOne: request.parallel_tool_calls === false,
    responseFormat:
      format?.type === 'json_schema' ? { type: format.type, schema: format.json_schema.schema ?? {} } : format,
    images,
    maxOutputTokens: limit ?? undefined,
    stopSequences: [request.stop ?? []].flat(),
    thinking: thinkingOf(request),
  }
}

/**
 * Returns the texts that the model reads of a message. A tool call with results has no text, so the question before it remains
 * the last text. Results of earlier rounds are ordinary text.
 */
function textsOf(message: ChatMessage, lastSpoken: number, messages: readonly ChatMessage[]): string[] {
  const at = messages.indexOf(message)
  if (message.role === 'tool') return at > lastSpoken ? [] : [textOf(message.content)]
  if (message.role === 'user') return [userText(message.content)]
  const read = wholeTextOf(message)
  const calls = message.role === 'assistant' ? (message.tool_calls ?? []) : []
  return read === '' || (at === lastSpoken && calls.length > 0) ? [] : [read]
}

type UserContent = Extract<ChatMessage, { role: 'user' }>['content']

function userText(content: UserContent): string {
  if (typeof content === 'string') return content
  return content.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n')
}

function imageUrls(message: ChatMessage): string[] {
  if (message.role !== 'user' || typeof message.content === 'string') return []
  return message.content.flatMap((part) => (part.type === 'image_url' ? [part.image_url.url] : []))
}

const FINISH_REASONS = {
  stop: 'stop',
  stop_sequence: 'stop',
  length: 'length',
  tool_calls: 'tool_calls',
  refused: 'stop',
} as const satisfies Record<WrittenAnswer['finishReason'], string>

function completionBody(answer: WrittenAnswer, model: string, id: string, cached: number) {
  const isRefusal = answer.finishReason === 'refused'
  const toolCalls = answer.toolCalls.map((call, index) => ({
    id: `call_${id.slice(0, 12)}_${index}`,
    type: 'function',
    function: { name: call.name, arguments: JSON.stringify(call.arguments) },
  }))
  return {
    id: `chatcmpl-${id}`,
    object: 'chat.completion',
    created: Math.floor(Date.now() / 1000),
    model,
    choices: [
      {
        index: 0,
        message: {
          role: 'assistant',
          content: isRefusal ? null : answer.text,
          refusal: isRefusal ? answer.text : null,
          ...(toolCalls.length === 0 ? {} : { tool_calls: toolCalls }),
        },
        logprobs: null,
        finish_reason: FINISH_REASONS[answer.finishReason],
      },
    ],
    usage: {
      prompt_tokens: answer.inputTokens,
      completion_tokens: answer.outputTokens,
      total_tokens: answer.inputTokens + answer.outputTokens,
      prompt_tokens_details: { cached_tokens: Math.min(cached, answer.inputTokens), audio_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: answer.thinkingTokens },
    },
  }
}

function withoutOutput(body: Completion): unknown {
  return {
    ...body,
    choices: body.choices?.map((choice) => ({ ...choice, message: { role: 'assistant', content: '', refusal: null } })),
  }
}

type Message = Completion['choices'][number]['message']

/**
 * Divides a completion into the chunks of a stream, one for each token of text. The counts are in a chunk of their own,
 * for requests with `include_usage`. Source: developers.openai.com/api/reference, ChatCompletionChunk
 */
function completionChunks(body: unknown, { reportsUsage }: { reportsUsage: boolean }): string[] {
  const { id, created, model, choices, usage } = body as Completion
  const known = { id, object: 'chat.completion.chunk', created, model, service_tier: 'default' }
  const chunk = (delta: object, finishReason: string | null = null) =>
    serverEvent({
      ...known,
      choices: [{ index: 0, delta, logprobs: null, finish_reason: finishReason }],
      ...(reportsUsage ? { usage: null } : {}),
    })
  return [
    ...choices.flatMap(({ message: { content, refusal, tool_calls: calls = [] }, finish_reason }) => [
      chunk({ role: 'assistant', content: content === null ? null : '', refusal: null }),
      ...tokenPieces(content ?? '').map((text) => chunk({ content: text })),
      ...tokenPieces(refusal ?? '').map((text) => chunk({ refusal: text })),
      ...calls.flatMap((call, index) => callChunks(call, index).map((delta) => chunk({ tool_calls: [delta] }))),
      chunk({}, finish_reason),
    ]),
    ...(reportsUsage ? [serverEvent({ ...known, choices: [], usage })] : []),
    'data: [DONE]\n\n',
  ]
}

function callChunks(
  { id, function: { name, arguments: json } }: NonNullable<Message['tool_calls']>[number],
  index: number,
): object[] {
  return [
    { index, id, type: 'function', function: { name, arguments: '' } },
    ...inGroups(Array.from(json), 16).map((piece) => ({ index, function: { arguments: piece } })),
  ]
}
