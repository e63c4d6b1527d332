import { z } from 'zod'
import { budgetOfEffort, EFFORTS, type Effort } from '#shared/operations/text/effort.ts'
import type { TextRequest } from '#shared/operations/text/text-request.ts'
import { emptyOutput } from './failures.ts'
import type { TextProvider } from './provider.ts'

/** An option of every adapter with text: the most output tokens that the upstream model accepts. */
export const maximumOutputTokensSchema = z.int().min(1).optional()

/**
 * Returns the provider with output limits that the upstream model accepts. Vendors reject a higher one, although few
 * answers come near it; one that does ends with finish reason `length`. Without any output it is a failure: the payer
 * did not choose the lower limit that ended it.
 */
export function withinOutputLimit(provider: TextProvider, maximumOutputTokens: number | undefined): TextProvider {
  if (maximumOutputTokens === undefined) return provider
  return {
    async generateText(request, options) {
      if (request.max_output_tokens <= maximumOutputTokens) return provider.generateText(request, options)
      const outcome = await provider.generateText({ ...request, max_output_tokens: maximumOutputTokens }, options)
      if (outcome.outcome === 'failed') return outcome
      const { text, refusal, tool_calls: calls, finish_reason: reason, usage } = outcome.output
      const hasOutput = (text ?? '').trim() !== '' || refusal !== null || calls.length > 0
      if (hasOutput || reason !== 'length') return outcome
      const { vendorRequestId } = outcome
      return {
        ...emptyOutput('HTTP 200 without output within the deployment’s limit', usage),
        ...(vendorRequestId === undefined ? {} : { vendorRequestId }),
      }
    },
  }
}

/**
 * The highest effort of a request by its output limit, since hidden thinking counts against the limit and an answer
 * that was thought away is empty (infra/decisions/providers.md#answers).
 */
const HIGHEST_EFFORTS: readonly { readonly below: number; readonly effort: Effort }[] = [
  { below: 4096, effort: 'none' },
  { below: 16_384, effort: 'low' },
  { below: 32_768, effort: 'medium' },
]

interface EffortRange {
  /** For requests with a high output limit; absent: the vendor's default. */
  readonly highest?: Effort | undefined
  /** The lowest effort that the model supports. */
  readonly lowest: Effort
}

/** What a request says about thinking. */
type Thinking = Pick<TextRequest, 'max_output_tokens' | 'reasoning_effort'>

/** The highest effort that is asked for where the deployment sets none: every model that thinks has it. */
const HIGHEST_UNSET = 'high'

/**
 * Returns the effort of a request: the one that it asks for, or else what its output limit suggests, within the
 * deployment's range; `undefined` for the vendor's default.
 */
export function effortWithin(
  { max_output_tokens: outputTokens, reasoning_effort: asked }: Thinking,
  { highest, lowest }: EffortRange,
): Effort | undefined {
  const bound = asked ?? HIGHEST_EFFORTS.find(({ below }) => outputTokens < below)?.effort
  if (bound === undefined) return highest
  const supported = rank(bound) >= rank(lowest) ? bound : lowest
  const most = highest ?? (asked === undefined ? undefined : HIGHEST_UNSET)
  return most !== undefined && rank(most) < rank(supported) ? most : supported
}

/** Returns whether the efforts are in order; a range without a highest effort is. */
export function isEffortRange({ highest, lowest }: EffortRange): boolean {
  return highest === undefined || rank(lowest) <= rank(highest)
}

function rank(effort: Effort): number {
  return EFFORTS.indexOf(effort)
}

/** The share of an output limit that a thinking budget may take; the rest is for text. */
const THINKING_SHARE = 1 / 4

export interface BudgetRange {
  /** The smallest budget that the model supports, apart from none at all. */
  readonly minimumTokens: number
  /** Whether a budget of 0 turns thinking off. */
  readonly canBeOff: boolean
}

/**
 * Returns the thinking budget of a request: that of the effort that it asks for, or else a quarter of its output limit, at
 * most the deployment's; and where that is less than the model supports, 0 or the least.
 */
export function budgetWithin(
  { max_output_tokens: outputTokens, reasoning_effort: asked }: Thinking,
  budgetTokens: number,
  range: BudgetRange,
): number {
  const wanted =
    asked === undefined ? Math.floor(outputTokens * THINKING_SHARE) : Math.min(budgetOfEffort(asked), outputTokens)
  const budget = Math.min(budgetTokens, wanted)
  if (budget >= range.minimumTokens) return budget
  return range.canBeOff ? 0 : range.minimumTokens
}
