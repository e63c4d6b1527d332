import type { BudgetRange, Effort } from '../output-limit.ts'

/** Models of generation 2.5 have a budget, later ones a level; an absent level is the vendor’s default. */
export type GeminiThinking = { readonly budgetTokens: number } | { readonly level: Effort | undefined }

/** What a model accepts, as far as its name shows. The vendor's refusals decide the rest. */
export interface GeminiModelTraits {
  /** How thinking is limited unless configured; `none` for models that do not think, or reject any configuration. */
  readonly thinking: GeminiThinking | 'none'
  /** The lowest thinking level. */
  readonly lowestLevel: Effort
  readonly budgets: BudgetRange
  /** Whether a function call that is sent back needs a thought signature. */
  readonly needsSignatures: boolean
  /** Whether temperature, topP and topK have an effect; newer models ignore them, and later ones will reject them. */
  readonly samples: boolean
  /** Whether function calling can be combined with a JSON answer. */
  readonly combinesToolsWithJson: boolean
  /** Whether a conversation may end with the model's own turn, which it then continues. */
  readonly continuesOwnTurn: boolean
}

/**
 * Returns the traits of a model. A name of the vendor's family without a version (`gemini-flash-latest`) counts as the
 * newest, any other name (an open model that the same API serves) as one without thinking.
 *
 * Source: ai.google.dev/gemini-api/docs/generate-content/thinking (levels and budgets of each model), …/docs/gemini-3,
 * …/docs/latest-model; 400 "Function calling with a response mime type: 'application/json' is unsupported" of
 * generation 2.5; 400 "Requests ending with a model turn are not supported" of gemini-3.6-flash and
 * gemini-3.5-flash-lite, which gemini-3.5-flash accepts.
 */
export function modelTraits(upstreamModel: string): GeminiModelTraits {
  const generation = generationOf(upstreamModel)
  const isLite = upstreamModel.includes('flash-lite')
  const isFixed = generation >= 3.6 || (isLite && generation >= 3.5)
  return {
    thinking: defaultThinking(generation, isLite),
    lowestLevel: isLite ? 'minimal' : 'low',
    budgets: upstreamModel.includes('-pro') ? PRO_BUDGETS : { minimumTokens: isLite ? 512 : 1, canBeOff: true },
    needsSignatures: generation >= 3,
    samples: !isFixed,
    combinesToolsWithJson: generation >= 3,
    continuesOwnTurn: !isFixed,
  }
}

const PRO_BUDGETS: BudgetRange = { minimumTokens: 128, canBeOff: false }

/** Flash-Lite of generation 2.5 thinks only when asked to. */
function defaultThinking(generation: number, isLite: boolean): GeminiThinking | 'none' {
  if (generation >= 3) return { level: undefined }
  return generation >= 2.5 && !isLite ? { budgetTokens: Number.POSITIVE_INFINITY } : 'none'
}

function generationOf(upstreamModel: string): number {
  if (!upstreamModel.startsWith('gemini-')) return 0
  const version = /^gemini-(\d+(?:\.\d+)?)(?:-|$)/.exec(upstreamModel)?.[1]
  return version === undefined ? Number.POSITIVE_INFINITY : Number(version)
}
