import type { Effort } from '#shared/operations/text/effort.ts'
import { geminiFamily } from '#shared/operations/vendors/gemini.ts'
import type { BudgetRange } from '../output-limit.ts'

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
}

/**
 * Returns the traits of a model.
 *
 * Source: ai.google.dev/gemini-api/docs/generate-content/thinking (levels and budgets of each model), …/docs/gemini-3.
 */
export function modelTraits(upstreamModel: string): GeminiModelTraits {
  const { generation, isLite, isFixed } = geminiFamily(upstreamModel)
  return {
    thinking: defaultThinking(generation, isLite),
    lowestLevel: isLite ? 'minimal' : 'low',
    budgets: upstreamModel.includes('-pro') ? PRO_BUDGETS : { minimumTokens: isLite ? 512 : 1, canBeOff: true },
    needsSignatures: generation >= 3,
    samples: !isFixed,
  }
}

const PRO_BUDGETS: BudgetRange = { minimumTokens: 128, canBeOff: false }

/** Flash-Lite of generation 2.5 thinks only when asked to. */
function defaultThinking(generation: number, isLite: boolean): GeminiThinking | 'none' {
  if (generation >= 3) return { level: undefined }
  return generation >= 2.5 && !isLite ? { budgetTokens: Number.POSITIVE_INFINITY } : 'none'
}
