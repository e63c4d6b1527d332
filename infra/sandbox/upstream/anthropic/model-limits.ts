import type { AnthropicRequest } from './request-wire.ts'

/** The smallest budget of extended thinking. */
const MINIMUM_BUDGET_TOKENS = 1024

/**
 * Returns the message of the 400 with which the vendor's model refuses the request although others accept it. Models
 * without a version in their name have no limits.
 *
 * Source: platform.claude.com/docs/en/api/errors ("Prefill not supported"), …/about-claude/models/overview and
 * …/migration-guide, …/build-with-claude/adaptive-thinking and …/effort, …/models/sonnet-5-5/whats-new-sonnet-5-5;
 * the refusal of thinking as reported (diegosouzapw/OmniRoute#4389, read on 30 November 2026)
 */
export function limitExceededBy(request: AnthropicRequest): string | undefined {
  const { model, messages, max_tokens: limit, temperature, top_p, top_k, thinking, output_config: output } = request
  const generation = generationOf(model)
  if (generation === undefined) return undefined
  const maximum = generation < 4.6 ? 64_000 : 128_000
  if (limit > maximum)
    return `max_tokens: ${limit} > ${maximum}, which is the maximum allowed number of output tokens for ${model}`
  if (generation >= 4.6 && messages.at(-1)?.role === 'assistant')
    return 'This model does not support assistant message prefill. The conversation must end with a user message.'
  const isForced = request.tool_choice?.type === 'any' || request.tool_choice?.type === 'tool'
  if (isForced && generation > 5 && !model.startsWith('claude-haiku-'))
    return 'tool_choice: type "tool" and "any" are not supported for this model.'
  if (isForced && (thinking?.type === 'adaptive' || thinking?.type === 'enabled'))
    return 'Thinking may not be enabled when tool_choice forces tool use.'
  const sampled = Object.entries({ temperature, top_p, top_k }).find(([, value]) => value !== undefined)?.[0]
  if (sampled !== undefined && generation >= 4.7) return `\`${sampled}\` is deprecated for this model.`
  if (output?.effort !== undefined && generation < 4.6) return 'This model does not support the effort parameter.'
  if (thinking?.type === 'adaptive' && generation < 4.6) return 'adaptive thinking is not supported on this model'
  if (thinking?.type === 'disabled' || thinking?.type === 'between_tools')
    return withoutThinkingRefusal(model, generation, thinking.type, output?.effort)
  if (thinking?.type !== 'enabled') return undefined
  if (generation >= 4.7) return '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive".'
  if (thinking.budget_tokens >= limit) return '`max_tokens` must be greater than `thinking.budget_tokens`.'
  return thinking.budget_tokens < MINIMUM_BUDGET_TOKENS
    ? `thinking.enabled.budget_tokens: Input should be greater than or equal to ${MINIMUM_BUDGET_TOKENS}`
    : undefined
}

/**
 * Returns the refusal of a request that turns thinking off. Its words for Opus 5.5 are the vendor's, reproduced on 6 October
 * 2026 (dev.to/persimmoq/claude-opus-55-sonnet-55-5-settings-that-return-400-when-you-only-change-the-model-name-5g36); those
 * for Sonnet 5.5 "tell you to use between_tools instead" (…/sonnet-5-5/whats-new-sonnet-5-5); those for efforts are not known.
 * Which models refuse what: see `modelTraits` and `effortOf` of the adapter, and their sources.
 */
function withoutThinkingRefusal(
  model: string,
  generation: number,
  type: 'disabled' | 'between_tools',
  effort: string | undefined,
): string | undefined {
  const isLater = generation > 5
  const takesBetweenTools = isLater && model.startsWith('claude-sonnet-')
  const isAlwaysOn =
    /^claude-(?:fable|mythos)-/.test(model) || (isLater && !takesBetweenTools && !model.startsWith('claude-haiku-'))
  const refused = `"thinking.type.${type}" is not supported for this model.`
  if (takesBetweenTools && type === 'disabled') return `${refused} Use "thinking.type.between_tools".`
  if (isAlwaysOn || takesBetweenTools !== (type === 'between_tools'))
    return `${refused} Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.`
  return generation >= 5 && (effort === 'xhigh' || effort === 'max')
    ? `"thinking.type.${type}" is not supported with the effort ${effort}.`
    : undefined
}

/**
 * Returns the tokens from which a prefix is cached; shorter ones cause no error. "512 tokens for Opus 5, Fable 5 and Mythos
 * 5; 1,024 for Opus 4.8, Sonnet 5, Sonnet 4.6/4.5 and Opus 4.1/4; 2,048 for Opus 4.7; and 4,096 for Opus 4.6, Opus 4.5 and
 * Haiku 4.5."
 *
 * Source: the vendor's page on prompt caching, as dev.to/creeta/claudes-prompt-cache-fails-silently-below-1024-tokens-1ch1
 * quotes it, read on 26 November 2026
 */
export function minimumCacheable(model: string): number {
  const generation = generationOf(model)
  if (model.includes('haiku') && generation === 4.5) return 4096
  if (generation === undefined || model.includes('sonnet')) return 1024
  if (generation >= 5) return 512
  if (generation === 4.7) return 2048
  return generation === 4.5 || generation === 4.6 ? 4096 : 1024
}

export function generationOf(model: string): number | undefined {
  const version = /^claude-[a-z]+-(\d{1,2})(?:-(\d{1,2}))?(?:-|$)/.exec(model)
  return version === null ? undefined : Number(`${version[1]}.${version[2] ?? 0}`)
}
