import type { Effort } from '#shared/operations/text/effort.ts'
import type { TextPart, TextRequest } from '#shared/operations/text/text-request.ts'
import { forcesCall, modelTraits } from '#shared/operations/vendors/anthropic.ts'
import { withUniqueCallIds } from '../call-ids.ts'
import { described } from '../json-schema.ts'
import { effortWithin } from '../output-limit.ts'
import { argumentsObject } from '../text-answer.ts'
import { withPairs } from '../turns.ts'
import { outputSchema, toolSchema } from './json-schema.ts'

interface Block extends Cacheable {
  readonly type: 'text' | 'image' | 'tool_use' | 'tool_result'
  readonly [field: string]: unknown
}

interface Message {
  readonly role: 'user' | 'assistant'
  readonly content: Block[]
}

/** The vendor has no JSON mode without a schema, so a caller's `json_object` becomes an instruction. */
const JSON_INSTRUCTION = 'Answer with one JSON object and nothing else.'

/** The deployment's settings of a text body. */
export interface AnthropicTextSettings {
  /** The vendor's model name. */
  readonly upstreamModel: string
  /**
   * Whether temperature, top_p and top_k are sent; default false. Current models reject them with a 400 and the current
   * SDK no longer has them (platform.claude.com/docs/en/about-claude/models/migration-guide); older models accept them.
   */
  readonly acceptsSampling?: boolean | undefined
  /** For requests with a high output limit; absent: the vendor's default. */
  readonly effort?: Effort | undefined
  /**
   * `adaptive` makes models think that do not by default, `disabled` the opposite, for models that can be without; absent: the
   * vendor's default.
   */
  readonly thinking?: 'adaptive' | 'disabled' | undefined
}

/**
 * Builds the body of `POST /v1/messages` for a text request whose images are inline. The API has no seed and no
 * penalties. Source: platform.claude.com/docs/en/api/messages and …/agents-and-tools/tool-use
 */
export function textBody(request: TextRequest, settings: AnthropicTextSettings): object {
  const { upstreamModel, acceptsSampling = false } = settings
  const { response_format: format, tools = [], stop_sequences: stopSequences = [] } = request
  const schema = format?.type === 'json_schema' ? described(outputSchema(format.schema), format.description) : undefined
  const definitions = tools.map(({ name, description, parameters, strict, ...part }) => ({
    name,
    ...(description === undefined ? {} : { description }),
    // A strict schema has the limits of an output format.
    ...(strict === true
      ? { strict, input_schema: toolSchema(outputSchema(parameters) ?? parameters) }
      : { input_schema: toolSchema(parameters) }),
    ...cacheControl(part),
  }))
  const system = systemOf(request)
  const messages = messagesOf(request)
  dropBreakpoints(
    [definitions, typeof system === 'string' ? [] : system, ...messages.map(({ content }) => content)].flat(),
  )
  return {
    model: upstreamModel,
    max_tokens: request.max_output_tokens,
    ...(system.length === 0 ? {} : { system }),
    messages,
    ...(tools.length === 0 ? {} : { tools: definitions, tool_choice: toolChoice(request) }),
    ...(stopSequences.length === 0 ? {} : { stop_sequences: stopSequences }),
    ...outputConfig(schema, effortOf(request, settings)),
    ...thinkingOf(request, settings),
    ...(acceptsSampling ? sampling(request) : {}),
  }
}

interface Cacheable {
  cache_control?: { readonly type: 'ephemeral' }
}

/** The vendor refuses more (platform.claude.com/docs/en/build-with-claude/prompt-caching). */
const MAXIMUM_BREAKPOINTS = 4

/** Removes the earliest breakpoints beyond the vendor's maximum: the latest ones end the longest prefixes. */
function dropBreakpoints(blocks: readonly Cacheable[]): void {
  const marked = blocks.filter(({ cache_control: cacheControl }) => cacheControl !== undefined)
  for (const block of marked.slice(0, -MAXIMUM_BREAKPOINTS)) delete block.cache_control
}

function cacheControl({ cache_breakpoint: isBreakpoint }: Pick<TextPart, 'cache_breakpoint'>): Cacheable {
  return isBreakpoint === true ? { cache_control: { type: 'ephemeral' } } : {}
}

/** Returns the system text, in blocks where it has cache breakpoints. */
function systemOf({
  system = '',
  system_breakpoints: ends = [],
  response_format: format,
}: TextRequest): string | ({ type: 'text'; text: string } & Cacheable)[] {
  const texts = [system, format?.type === 'json_object' ? JSON_INSTRUCTION : '']
  const text = texts.filter((one) => one !== '').join('\n\n')
  if (ends.length === 0) return text
  const blocks = [...ends, text.length].map((end, index) => ({
    type: 'text' as const,
    text: text.slice(ends[index - 1] ?? 0, end),
    ...(index < ends.length ? cacheControl({ cache_breakpoint: true }) : {}),
  }))
  return blocks.filter((block) => block.text.trim() !== '')
}

function outputConfig(schema: object | undefined, effort: Effort | undefined): object {
  if (schema === undefined && effort === undefined) return {}
  return {
    output_config: {
      ...(effort === undefined ? {} : { effort }),
      ...(schema === undefined ? {} : { format: { type: 'json_schema', schema } }),
    },
  }
}

/**
 * Older models reject an effort, so it is sent only where it is configured or the model thinks by default. Those reject one
 * above `high` where thinking is off: Sonnet 5.5 answers 400 to `between_tools` at xhigh and max
 * (platform.claude.com/docs/en/models/sonnet-5-5/whats-new-sonnet-5-5, as its Chinese page says), and Opus 5 and Haiku 5.5 to
 * `disabled` (docs.apiyi.com, "Claude thinking and effort guide", 9 November 2026); read on 30 November 2026.
 */
function effortOf(
  request: TextRequest,
  { upstreamModel, effort, thinking }: AnthropicTextSettings,
): Effort | undefined {
  const { thinksByDefault } = modelTraits(upstreamModel)
  if (effort === undefined && !thinksByDefault) return undefined
  const isTooHigh = thinksByDefault && thinking === 'disabled' && (effort === 'xhigh' || effort === 'max')
  return effortWithin(request, { highest: isTooHigh ? 'high' : effort, lowest: 'low' })
}

/** Below this output limit a model that does not think by default is not asked to, unless the request asks for thinking. */
const LOWEST_THINKING_OUTPUT_TOKENS = 4096

/**
 * A call that is forced excludes thinking: 400 "Thinking may not be enabled when tool_choice forces tool use."
 * (diegosouzapw/OmniRoute#4389, vercel/ai#17729, read on 30 November 2026).
 */
function thinkingOf(request: TextRequest, { upstreamModel, thinking }: AnthropicTextSettings): object {
  if (thinking === 'disabled') return { thinking: { type: modelTraits(upstreamModel).withoutThinking } }
  const { max_output_tokens: limit, reasoning_effort: asked } = request
  const isBelow = asked === undefined ? limit < LOWEST_THINKING_OUTPUT_TOKENS : asked === 'none'
  const isUnwanted = isBelow || forcesCall(request)
  return thinking === undefined || isUnwanted ? {} : { thinking: { type: thinking } }
}

/**
 * Ids are unique besides: 400 "`tool_use` ids must be unique" and "tool_use.id: String should match pattern
 * '^[a-zA-Z0-9_-]+$'" (anomalyco/opencode#1279, read on 28 November 2026).
 */
const CALL_ID = /^[A-Za-z0-9_-]{1,128}$/

/**
 * Merges neighbors of the same role into one message with tool results first: the vendor requires them directly after
 * the calls. The vendor rejects empty texts and trailing whitespace of an answer to be continued, so they are left out.
 * Source: …/tool-use/handle-tool-calls ("Tool result blocks must come first").
 */
function messagesOf({ messages }: TextRequest): Message[] {
  const merged: Message[] = []
  for (const { role, parts } of withUniqueCallIds(withPairs(messages), CALL_ID)) {
    const blocks = parts.flatMap((part) => {
      const block = blockOf(part)
      return block === undefined ? [] : [{ ...block, ...cacheControl(part) }]
    })
    const previous = merged.at(-1)
    if (blocks.length === 0) continue
    if (previous?.role === role) previous.content.push(...blocks)
    else merged.push({ role, content: blocks })
  }
  const last = merged.at(-1)
  return merged.map(({ role, content }) => ({
    role,
    content: [
      ...content.filter(({ type }) => type === 'tool_result'),
      ...content.filter(({ type }) => type !== 'tool_result'),
    ].map((block, index, all) =>
      role === 'assistant' && content === last?.content && index === all.length - 1
        ? withoutTrailingWhitespace(block)
        : block,
    ),
  }))
}

function withoutTrailingWhitespace(block: Block): Block {
  const text = block['text']
  return typeof text === 'string' ? { ...block, text: text.trimEnd() } : block
}

function blockOf(part: TextPart): Block | undefined {
  switch (part.type) {
    case 'text':
      return part.text.trim() === '' ? undefined : { type: 'text', text: part.text }
    case 'image': {
      // Remote images were rejected earlier.
      if (part.source.kind !== 'inline') return undefined
      const source = { type: 'base64', media_type: part.source.media_type, data: part.source.base64 }
      return { type: 'image', source }
    }
    case 'tool_call':
      return { type: 'tool_use', id: part.id, name: part.name, input: argumentsObject(part.arguments_json) }
    case 'tool_result':
      return {
        type: 'tool_result',
        tool_use_id: part.tool_call_id,
        content: part.text,
        ...(part.is_error === true ? { is_error: true } : {}),
      }
  }
}

function toolChoice({ tool_choice: choice = 'auto', parallel_tool_calls: parallel }: TextRequest): object {
  if (choice === 'none') return { type: choice }
  const single = parallel === false ? { disable_parallel_tool_use: true } : {}
  if (typeof choice === 'object') return { type: 'tool', name: choice.name, ...single }
  return { type: choice === 'required' ? 'any' : choice, ...single }
}

/**
 * Returns the sampling options: the vendor's temperature is at most 1, and its models accept temperature or nucleus
 * sampling but not both.
 */
function sampling({ temperature, top_p: topP, top_k: topK }: TextRequest): object {
  return {
    ...(temperature === undefined ? {} : { temperature: Math.min(1, Math.max(0, temperature)) }),
    ...(topP === undefined || temperature !== undefined ? {} : { top_p: topP }),
    ...(topK === undefined ? {} : { top_k: Math.max(1, Math.round(topK)) }),
  }
}
