/** What a model accepts, as far as its name shows. The vendor's refusals decide the rest. */
export interface AnthropicModelTraits {
  /** Whether the model thinks by default, so that its effort must follow the output limit. */
  readonly thinksByDefault: boolean
  /** Whether a conversation may end with the model's own turn, which it then continues. */
  readonly continuesOwnTurn: boolean
}

/**
 * Returns the traits of a model. A name without a version has none of the newer ones.
 *
 * Source: platform.claude.com/docs/en/about-claude/models/migration-guide and …/docs/en/api/errors
 * ("Prefill not supported": 4.6 and later), …/build-with-claude/adaptive-thinking and …/effort (generation 5).
 */
export function modelTraits(upstreamModel: string): AnthropicModelTraits {
  const generation = generationOf(upstreamModel)
  return { thinksByDefault: generation >= 5, continuesOwnTurn: generation < 4.6 }
}

/** Reads `claude-opus-4-6` as 4.6, and `claude-sonnet-4-20250514` as 4. */
function generationOf(upstreamModel: string): number {
  const version = /^claude-[a-z]+-(\d{1,2})(?:-(\d{1,2}))?(?:-|$)/.exec(upstreamModel)
  return version === null ? 0 : Number(`${version[1]}.${version[2] ?? 0}`)
}
