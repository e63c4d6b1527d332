import { ok, type VendorAnswer, type VendorRequest } from '../vendor-route.ts'
import type { TextCall, Thinking, Turn, TurnPart } from '../writing/text-call.ts'
import { textRoute } from '../writing/text-route.ts'
import type { WrittenAnswer } from '../writing/write-answer.ts'
import { generationOf, limitExceededBy, minimumCacheable } from './model-limits.ts'
import { refusal, refuseKey } from './refusals.ts'
import { type AnthropicRequest, requestWire } from './request-wire.ts'
import { messageEvents } from './stream-events.ts'
import { turnFault } from './turn-faults.ts'

/**
 * Creates `POST /v1/messages` as documented for the Anthropic API, for text, vision, client tools and JSON output. Models are
 * named `claude-…`; those of generation 5 think. A refused or blocked prompt ends with `refusal`.
 *
 * Source: platform.claude.com/docs/en/api/messages
 */
export function createMessagesRoute() {
  return textRoute({
    path: '/v1/messages',
    refuseKey,
    read: readCall,
    unreadableImage: invalid('Could not process image'),
    write: writeMessage,
    stream: messageEvents,
  })
}

/** Source: platform.claude.com/docs/en/build-with-claude/prompt-caching */
const MAXIMUM_BREAKPOINTS = 4

function readCall({ json }: VendorRequest): TextCall | VendorAnswer {
  const { data: request, error } = requestWire.safeParse(json)
  if (request === undefined) return invalid(error.message)
  const { model, tools = [], tool_choice: choice, output_config: output } = request
  if (!model.startsWith('claude-')) return refusal(404, 'not_found_error', `model: ${model}`)
  const fault = limitExceededBy(request) ?? turnFault(request.messages)
  if (fault !== undefined) return invalid(fault)
  const turns = turnsOf(request)
  const read = tools.map((tool) => ({
    name: tool.name,
    description: tool.description,
    parameters: tool.input_schema,
    isBreakpoint: tool.cache_control != null,
  }))
  const breakpoints = [...read, ...turns.flatMap(({ parts }) => parts)].filter(({ isBreakpoint }) => isBreakpoint)
  if (breakpoints.length > MAXIMUM_BREAKPOINTS)
    return invalid(`A maximum of ${MAXIMUM_BREAKPOINTS} blocks with cache_control may be provided.`)
  return {
    model,
    isStreamed: request.stream === true,
    turns,
    tools: read,
    toolChoice:
      choice?.type === 'tool' ? { name: choice.name } : choice?.type === 'any' ? 'required' : (choice?.type ?? 'auto'),
    callsOne:
      choice !== undefined && 'disable_parallel_tool_use' in choice && choice.disable_parallel_tool_use === true,
    responseFormat:
      output?.format === undefined ? { type: 'text' } : { type: 'json_schema', schema: output.format.schema },
    thinking: thinkingOf(request),
    // platform.claude.com/docs/en/build-with-claude/vision, "Evaluate image size": width × height / 750, scaled down
    // above about 1600.
    imageTokens: ({ width, height }) => Math.min(1600, Math.ceil((width * height) / 750)),
    cache: { minimum: minimumCacheable(model) },
    maxOutputTokens: request.max_tokens,
    stopSequences: request.stop_sequences ?? [],
  }
}

function invalid(message: string): VendorAnswer {
  return refusal(400, 'invalid_request_error', message)
}

type Block = Exclude<AnthropicRequest['messages'][number]['content'], string>[number]

/** Returns the turns; `cache_control` of the request itself marks the end of the last one. */
function turnsOf({ system = [], messages, cache_control: automatic }: AnthropicRequest): Turn[] {
  const turns = [{ role: 'system', content: system }, ...messages]
  return turns.map(({ role, content }, at) => {
    const blocks: readonly Block[] = typeof content === 'string' ? [{ type: 'text', text: content }] : content
    const end = automatic != null && at === turns.length - 1 ? blocks.at(-1) : undefined
    return {
      role,
      parts: blocks.map((block) => ({
        ...contentOf(block),
        isBreakpoint: block.cache_control != null || block === end,
      })),
    }
  })
}

function contentOf(block: Block): TurnPart {
  switch (block.type) {
    case 'text':
      return { kind: 'text', content: block.text }
    case 'image':
      return { kind: 'image', content: block.source.data }
    case 'tool_use':
      return { kind: 'call', content: `${block.name} ${JSON.stringify(block.input)}` }
    case 'tool_result': {
      const { content = '' } = block
      return {
        kind: 'result',
        content: typeof content === 'string' ? content : content.map(({ text }) => text).join('\n'),
      }
    }
  }
}

/** Returns how the model thinks; generation 5 does so unless the request turns it off. */
function thinkingOf({ model, thinking, output_config: output }: AnthropicRequest): Thinking | undefined {
  const thinksByDefault = (generationOf(model) ?? 0) >= 5
  if (thinking === undefined ? !thinksByDefault : thinking.type === 'disabled' || thinking.type === 'between_tools')
    return undefined
  if (thinking?.type === 'enabled') return { effort: 'high', budgetTokens: thinking.budget_tokens }
  const effort = output?.effort ?? 'high'
  return { effort: effort === 'low' || effort === 'medium' ? effort : 'high' }
}

const STOP_REASONS = {
  stop: 'end_turn',
  stop_sequence: 'stop_sequence',
  length: 'max_tokens',
  tool_calls: 'tool_use',
  refused: 'refusal',
  blocked: 'refusal',
} as const satisfies Record<WrittenAnswer['finishReason'], string>

function writeMessage(answer: WrittenAnswer, { model, thinking }: TextCall, digest: string): VendorAnswer {
  const { text, toolCalls, thinkingTokens, cache } = answer
  const id = digest.slice(0, 22)
  const content = [
    // Thoughts are omitted by default; their signature is not.
    ...(thinkingTokens === 0 ? [] : [{ type: 'thinking', thinking: '', signature: digest }]),
    ...(text === null || text === '' ? [] : [{ type: 'text', text }]),
    ...toolCalls.map(({ name, arguments: input }, index) => ({
      type: 'tool_use',
      id: `toolu_01${id}${index}`,
      name,
      input,
    })),
  ]
  const usage = {
    input_tokens: answer.inputTokens - cache.cached - cache.written,
    cache_creation_input_tokens: cache.written,
    cache_read_input_tokens: cache.cached,
    cache_creation: { ephemeral_5m_input_tokens: cache.written, ephemeral_1h_input_tokens: 0 },
    output_tokens: answer.outputTokens,
    ...(thinking === undefined ? {} : { output_tokens_details: { thinking_tokens: thinkingTokens } }),
    service_tier: 'standard',
  }
  const message = { id: `msg_01${id}`, type: 'message', role: 'assistant', model, content, usage }
  const stopped = { stop_reason: STOP_REASONS[answer.finishReason], stop_sequence: answer.stopSequence }
  return ok({ ...message, ...stopped }, { 'request-id': `req_01${id}` })
}
