import { createHash } from 'node:crypto'
import type { VendorAnswer, VendorRequest, VendorRoute } from '../vendor-route.ts'
import { readJson } from '../writing/json-request.ts'
import { type CachedTokens, createPromptCache, type PromptBlock, type PromptCache } from '../writing/prompt-cache.ts'
import { conversationBlocks, readConversation, type Turn, type TurnPart } from '../writing/read-conversation.ts'
import type { SeenImage } from '../writing/read-image.ts'
import { type Thinking, type WritingTask, type WrittenAnswer, writeAnswer } from '../writing/write-answer.ts'
import { refusal, refuseKey } from './refusals.ts'
import { type AnthropicRequest, requestWire } from './request-wire.ts'
import { messageEvents } from './stream-events.ts'
import { turnFault } from './turn-faults.ts'

/**
 * Creates `POST /v1/messages` as documented for the Anthropic API, for text, vision, client tools and JSON output. Models are
 * named `claude-…`; those of generation 5 think. A prompt with "please refuse" ends with `refusal`, and one with "please block"
 * before the first word.
 *
 * Source: platform.claude.com/docs/en/api/messages
 */
export function createMessagesRoute(): VendorRoute {
  const cache = createPromptCache()
  return {
    path: '/v1/messages',
    refuseKey,
    answer: (request) => createMessage(request, cache),
    emptied: (body) => ({ ...body, content: [] }),
  }
}

function createMessage({ body }: VendorRequest, cache: PromptCache): VendorAnswer {
  const parsed = requestWire.safeParse(readJson(body))
  if (!parsed.success) return refusal(400, 'invalid_request_error', parsed.error.message)
  const request = parsed.data
  if (!request.model.startsWith('claude-')) return refusal(404, 'not_found_error', `model: ${request.model}`)
  const limit = limitExceededBy(request) ?? turnFault(request.messages)
  if (limit !== undefined) return refusal(400, 'invalid_request_error', limit)
  const turns = request.messages.map(turnOf)
  const task = taskOf(request, turns)
  if (task === undefined) return refusal(400, 'invalid_request_error', 'Could not process image')
  const blocks = promptBlocks(request, turns)
  if (blocks.filter(({ isBreakpoint }) => isBreakpoint).length > MAXIMUM_BREAKPOINTS)
    return refusal(
      400,
      'invalid_request_error',
      `A maximum of ${MAXIMUM_BREAKPOINTS} blocks with cache_control may be provided.`,
    )
  const written = writeAnswer(task)
  const answer = /\bplease block\b/i.test(task.texts.at(-1) ?? '') ? blocked(written) : written
  const digest = createHash('sha256').update(body).digest('base64url').replaceAll(/[_-]/g, '0')
  return {
    status: 200,
    accepted: true,
    headers: { 'request-id': `req_01${digest.slice(0, 22)}` },
    ...(request.stream === true ? { stream: messageEvents } : {}),
    body: {
      id: `msg_01${digest.slice(0, 22)}`,
      type: 'message',
      role: 'assistant',
      model: request.model,
      content: contentOf(answer, digest),
      stop_reason: STOP_REASONS[answer.finishReason],
      stop_sequence: answer.stopSequence,
      usage: {
        ...inputUsage(
          answer.inputTokens,
          cache.readBreakpoints(request.model, blocks, { minimum: minimumCacheable(request.model) }),
        ),
        output_tokens: answer.outputTokens,
        ...(task.thinking === undefined ? {} : { output_tokens_details: { thinking_tokens: answer.thinkingTokens } }),
        service_tier: 'standard',
      },
    },
  }
}

/** Source: platform.claude.com/docs/en/build-with-claude/prompt-caching */
const MAXIMUM_BREAKPOINTS = 4

/**
 * Returns the tokens from which a prefix is cached; shorter ones cause no error. "512 tokens for Opus 5, Fable 5 and Mythos
 * 5; 1,024 for Opus 4.8, Sonnet 5, Sonnet 4.6/4.5 and Opus 4.1/4; 2,048 for Opus 4.7; and 4,096 for Opus 4.6, Opus 4.5 and
 * Haiku 4.5."
 *
 * Source: the vendor's page on prompt caching, as dev.to/creeta/claudes-prompt-cache-fails-silently-below-1024-tokens-1ch1
 * quotes it, read on 26 November 2026
 */
function minimumCacheable(model: string): number {
  const generation = generationOf(model)
  if (model.includes('haiku') && generation === 4.5) return 4096
  if (generation === undefined || model.includes('sonnet')) return 1024
  if (generation >= 5) return 512
  if (generation === 4.7) return 2048
  return generation === 4.5 || generation === 4.6 ? 4096 : 1024
}

/** Returns the blocks in the order of the cache's prefixes: tools, system, messages. */
function promptBlocks(
  { tools = [], system = [], cache_control: automatic }: AnthropicRequest,
  turns: readonly Turn[],
): readonly PromptBlock[] {
  const blocks = [
    ...tools.map((tool) => ({
      label: 'tool',
      text: `${tool.name} ${tool.description ?? ''} ${JSON.stringify(tool.input_schema)}`,
      isBreakpoint: tool.cache_control != null,
    })),
    ...conversationBlocks([turnOf({ role: 'system', content: system }), ...turns]),
  ]
  const last = blocks.at(-1)
  return automatic != null && last !== undefined ? [...blocks.slice(0, -1), { ...last, isBreakpoint: true }] : blocks
}

type Block = Exclude<AnthropicRequest['messages'][number]['content'], string>[number]

function turnOf({ role, content }: { role: string; content: string | readonly Block[] }): Turn {
  return { role, parts: typeof content === 'string' ? [{ kind: 'text', content }] : content.map(partOf) }
}

function partOf(block: Block): TurnPart {
  const isBreakpoint = block.cache_control != null
  switch (block.type) {
    case 'text':
      return { kind: 'text', content: block.text, isBreakpoint }
    case 'image':
      return { kind: 'image', content: block.source.data, isBreakpoint }
    case 'tool_use':
      return { kind: 'call', content: `${block.name} ${JSON.stringify(block.input)}`, isBreakpoint }
    case 'tool_result':
      return { kind: 'result', content: textOf(block.content), isBreakpoint }
  }
}

function inputUsage(inputTokens: number, { cached, written }: CachedTokens) {
  const read = Math.min(cached, inputTokens)
  const creation = Math.min(written, inputTokens - read)
  return {
    input_tokens: inputTokens - read - creation,
    cache_creation_input_tokens: creation,
    cache_read_input_tokens: read,
    cache_creation: { ephemeral_5m_input_tokens: creation, ephemeral_1h_input_tokens: 0 },
  }
}

/** Returns the answer to a prompt that was refused before anything was generated, which is not billed. */
function blocked(answer: WrittenAnswer): WrittenAnswer {
  return { ...answer, text: null, toolCalls: [], finishReason: 'refused', outputTokens: 0, thinkingTokens: 0 }
}

const STOP_REASONS = {
  stop: 'end_turn',
  stop_sequence: 'stop_sequence',
  length: 'max_tokens',
  tool_calls: 'tool_use',
  refused: 'refusal',
} as const satisfies Record<WrittenAnswer['finishReason'], string>

function contentOf({ text, toolCalls, thinkingTokens }: WrittenAnswer, digest: string): object[] {
  return [
    // Thoughts are omitted by default; their signature is not.
    ...(thinkingTokens === 0 ? [] : [{ type: 'thinking', thinking: '', signature: digest }]),
    ...(text === null || text === '' ? [] : [{ type: 'text', text }]),
    ...toolCalls.map(({ name, arguments: input }, index) => ({
      type: 'tool_use',
      id: `toolu_01${digest.slice(20)}${index}`,
      name,
      input,
    })),
  ]
}

function textOf(content: string | readonly { readonly text: string }[] | undefined): string {
  if (typeof content === 'string') return content
  return (content ?? []).map(({ text }) => text).join('\n')
}

/** Returns the task; undefined when an image cannot be read. */
function taskOf(request: AnthropicRequest, turns: readonly Turn[]): WritingTask | undefined {
  const { system, tools = [], tool_choice: choice, output_config: outputConfig } = request
  const conversation = readConversation(system === undefined ? [] : [textOf(system)], turns)
  return (
    conversation && {
      ...conversation,
      tools: tools.map(({ name, description, input_schema: parameters }) => ({ name, description, parameters })),
      toolChoice:
        choice?.type === 'tool'
          ? { name: choice.name }
          : choice?.type === 'any'
            ? 'required'
            : (choice?.type ?? 'auto'),
      callsOne:
        choice !== undefined && 'disable_parallel_tool_use' in choice && choice.disable_parallel_tool_use === true,
      responseFormat:
        outputConfig?.format === undefined
          ? { type: 'text' }
          : { type: 'json_schema', schema: outputConfig.format.schema },
      thinking: thinkingOf(request),
      imageTokens,
      maxOutputTokens: request.max_tokens,
      stopSequences: request.stop_sequences ?? [],
    }
  )
}

/**
 * Counts the tokens of an image (platform.claude.com/docs/en/build-with-claude/vision, "Evaluate image size"): width ×
 * height / 750, scaled down above about 1600.
 */
function imageTokens({ width, height }: SeenImage): number {
  return Math.min(1600, Math.ceil((width * height) / 750))
}

/** The smallest budget of extended thinking. */
const MINIMUM_BUDGET_TOKENS = 1024

/**
 * Returns the message of the 400 with which the vendor's model refuses the request although others accept it. Models
 * without a version in their name have no limits.
 *
 * Source: platform.claude.com/docs/en/api/errors ("Prefill not supported"), …/about-claude/models/overview and
 * …/migration-guide, …/build-with-claude/adaptive-thinking and …/effort
 */
function limitExceededBy(request: AnthropicRequest): string | undefined {
  const { model, messages, max_tokens: limit, temperature, top_p, top_k, thinking, output_config: output } = request
  const generation = generationOf(model)
  if (generation === undefined) return undefined
  const maximum = generation < 4.6 ? 64_000 : 128_000
  if (limit > maximum) {
    return `max_tokens: ${limit} > ${maximum}, which is the maximum allowed number of output tokens for ${model}`
  }
  if (generation >= 4.6 && messages.at(-1)?.role === 'assistant') {
    return 'This model does not support assistant message prefill. The conversation must end with a user message.'
  }
  const sampled = Object.entries({ temperature, top_p, top_k }).find(([, value]) => value !== undefined)?.[0]
  if (sampled !== undefined && generation >= 4.7) return `\`${sampled}\` is deprecated for this model.`
  if (output?.effort !== undefined && generation < 4.6) return 'This model does not support the effort parameter.'
  if (thinking?.type === 'adaptive' && generation < 4.6) return 'adaptive thinking is not supported on this model'
  if (thinking?.type !== 'enabled') return undefined
  if (generation >= 4.7) return '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive".'
  if (thinking.budget_tokens >= limit) return '`max_tokens` must be greater than `thinking.budget_tokens`.'
  return thinking.budget_tokens < MINIMUM_BUDGET_TOKENS
    ? `thinking.enabled.budget_tokens: Input should be greater than or equal to ${MINIMUM_BUDGET_TOKENS}`
    : undefined
}

/** Returns how the model thinks; generation 5 does so unless the request turns it off. */
function thinkingOf({ model, thinking, output_config: output }: AnthropicRequest): Thinking | undefined {
  const thinksByDefault = (generationOf(model) ?? 0) >= 5
  if (thinking === undefined ? !thinksByDefault : thinking.type === 'disabled') return undefined
  if (thinking?.type === 'enabled') return { effort: 'high', budgetTokens: thinking.budget_tokens }
  const effort = output?.effort ?? 'high'
  return { effort: effort === 'low' || effort === 'medium' ? effort : 'high' }
}

function generationOf(model: string): number | undefined {
  const version = /^claude-[a-z]+-(\d{1,2})(?:-(\d{1,2}))?(?:-|$)/.exec(model)
  return version === null ? undefined : Number(`${version[1]}.${version[2] ?? 0}`)
}
