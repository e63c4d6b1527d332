/** How hard a model may think, in ascending order. Each vendor, and each of its models, supports some of these. */
export const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const

export type Effort = (typeof EFFORTS)[number]

/**
 * Thinking budgets in tokens that stand for an effort, in both directions. Source:
 * ai.google.dev/gemini-api/docs/openai ("Thinking"), read on 28 November 2026; the vendor has none above `high`.
 */
const BUDGETS = { none: 0, minimal: 1024, low: 1024, medium: 8192, high: 24_576, xhigh: 24_576, max: 24_576 } as const

export function budgetOfEffort(effort: Effort): number {
  return BUDGETS[effort]
}

/** Returns the highest effort whose budget is within the given one; `low` below all of them. */
export function effortOfBudget(tokens: number): Effort {
  if (tokens >= BUDGETS.high) return 'high'
  return tokens >= BUDGETS.medium ? 'medium' : 'low'
}
