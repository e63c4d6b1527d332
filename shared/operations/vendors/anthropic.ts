import type { TextRequest } from '../text/text-request.ts'
import {
  emptinessObstacle,
  type NameRule,
  nameObstacle,
  ownTurnObstacle,
  type TextObstacle,
  verbosityObstacle,
} from './text-obstacle.ts'

/** What a model accepts, as far as its name shows. The vendor's refusals decide the rest. */
interface AnthropicModelTraits {
  /** Whether the model thinks by default, so that its effort must follow the output limit. */
  readonly thinksByDefault: boolean
  /** Whether a conversation may end with the model's own turn, which it then continues. */
  readonly continuesOwnTurn: boolean
  /** Whether a request may force a call of a tool. */
  readonly forcesCalls: boolean
  /** What turns thinking off; undefined where nothing does. */
  readonly withoutThinking: 'disabled' | 'between_tools' | undefined
}

/**
 * Returns the traits of a model. A name without a version has none of the newer ones.
 *
 * Source: platform.claude.com/docs/en/about-claude/models/migration-guide and …/docs/en/api/errors
 * ("Prefill not supported": 4.6 and later), …/build-with-claude/adaptive-thinking and …/effort (generation 5);
 * …/models/{sonnet-5-5,opus-5-5,fable-5-1}/whats-new-… ("Forced tool use is not supported": 400 `tool_choice: type "tool" and
 * "any" are not supported for this model.`), which …/models/haiku-5-5/whats-new-haiku-5-5 does not list, read on 30 November
 * 2026. Thinking: …/models/fable-5/migration-guide (Fable and Mythos: `thinking: {type: "disabled"}` returns a 400),
 * …/opus-5-5/whats-new-opus-5-5 ("Thinking can't be disabled"), …/sonnet-5-5/whats-new-sonnet-5-5 ("Turn off up-front
 * thinking": `between_tools` instead of `disabled`, which returns a 400), read on 30 November 2026; Haiku 5.5 accepts `disabled`
 * (docs.apiyi.com, "Claude thinking and effort guide", 9 November 2026).
 */
export function modelTraits(upstreamModel: string): AnthropicModelTraits {
  const generation = generationOf(upstreamModel)
  return {
    thinksByDefault: generation >= 5,
    continuesOwnTurn: generation < 4.6,
    forcesCalls: generation <= 5 || upstreamModel.startsWith('claude-haiku-'),
    withoutThinking: withoutThinking(upstreamModel, generation),
  }
}

function withoutThinking(upstreamModel: string, generation: number): AnthropicModelTraits['withoutThinking'] {
  if (/^claude-(?:fable|mythos)-/.test(upstreamModel)) return undefined
  if (generation <= 5 || upstreamModel.startsWith('claude-haiku-')) return 'disabled'
  return upstreamModel.startsWith('claude-sonnet-') ? 'between_tools' : undefined
}

/** Reads `claude-opus-4-6` as 4.6, and `claude-sonnet-4-20250514` as 4. */
function generationOf(upstreamModel: string): number {
  const version = /^claude-[a-z]+-(\d{1,2})(?:-(\d{1,2}))?(?:-|$)/.exec(upstreamModel)
  return version === null ? 0 : Number(`${version[1]}.${version[2] ?? 0}`)
}

/**
 * Source: 400 "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'" (BerriAI/litellm#26788) and "Tool names must be
 * unique" (anthropics/claude-code#10687), read on 28 November 2026.
 */
const NAMES: NameRule = {
  pattern: /^[a-zA-Z0-9_-]{1,128}$/,
  rule: 'with other characters than letters, digits, _ and -, or of more than 128 characters',
  isUnique: true,
}

/**
 * Returns what the vendor, or this model, does not take. Source of what is blank: 400 "each stop sequence must contain
 * non-whitespace" (BerriAI/litellm#3286) and "text content blocks must contain non-whitespace text"
 * (anthropics/claude-code#23369), read on 28 November 2026.
 */
export function anthropicTextObstacle(request: TextRequest, upstreamModel: string): TextObstacle | undefined {
  const hasBlankStop = request.stop_sequences?.some(isBlank) === true
  const { continuesOwnTurn, forcesCalls } = modelTraits(upstreamModel)
  return (
    (continuesOwnTurn ? undefined : ownTurnObstacle(request)) ??
    (forcesCalls ? undefined : forcedCallObstacle(request)) ??
    (hasBlankStop ? { field: 'stop_sequences', what: 'a stop sequence of whitespace only' } : undefined) ??
    verbosityObstacle(request) ??
    nameObstacle(request, NAMES) ??
    emptinessObstacle(request, isBlank, 'messages of whitespace only')
  )
}

function forcedCallObstacle(request: TextRequest): TextObstacle | undefined {
  return forcesCall(request) ? { field: 'tool_choice', what: 'a forced call of a tool' } : undefined
}

/** Returns whether the answer must call a tool: any, or the one that is named. */
export function forcesCall({ tool_choice: choice = 'auto' }: Pick<TextRequest, 'tool_choice'>): boolean {
  return choice === 'required' || typeof choice === 'object'
}

function isBlank(text: string): boolean {
  return text.trim() === ''
}
