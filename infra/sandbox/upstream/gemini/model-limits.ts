import type { GeminiRequest } from './request-wire.ts'

const MAXIMUM_OUTPUT_TOKENS = 65_536

/** The thinking budgets of generation 2.5, in tokens; Flash-Lite thinks only when it gets one. */
const BUDGETS = {
  pro: { off: false, from: 128, to: 32_768 },
  flash: { off: true, from: 1, to: 24_576 },
  lite: { off: true, from: 512, to: 24_576 },
} as const

/**
 * Returns the message of the 400 with which the vendor's model refuses the request although others accept it.
 *
 * Source: ai.google.dev/gemini-api/docs/generate-content/thinking; the messages are the vendor's, as reported for
 * penalties (google-gemini/cookbook#1290), tools with JSON (googleapis/python-genai#867), a model turn at the end
 * (LibreChat-AI/agents#323) and thinking levels (earendil-works/pi#9455).
 */
export function limitExceededBy({ contents, tools, generationConfig: config = {} }: GeminiRequest, model: string) {
  const { presencePenalty = 0, frequencyPenalty = 0, maxOutputTokens = 1, responseMimeType } = config
  const generation = generationOf(model)
  if (presencePenalty !== 0 || frequencyPenalty !== 0) return 'Penalty is not enabled for this model'
  if (generation < 3 && tools !== undefined && responseMimeType === 'application/json') {
    return "Function calling with a response mime type: 'application/json' is unsupported"
  }
  const last = contents.at(-1)
  const isFixed = generation >= 3.6 || (generation >= 3.5 && model.includes('flash-lite'))
  if (isFixed && last?.role === 'model' && !last.parts.some((part) => 'functionResponse' in part)) {
    return 'Requests ending with a model turn are not supported unless the last part is a function response.'
  }
  if (maxOutputTokens > MAXIMUM_OUTPUT_TOKENS) {
    return `Unable to submit request because it has a maxOutputTokens value of ${maxOutputTokens} but the supported range is from 1 (inclusive) to ${MAXIMUM_OUTPUT_TOKENS + 1} (exclusive).`
  }
  return thinkingLimitExceededBy(config.thinkingConfig ?? {}, model)
}

type ThinkingConfig = NonNullable<NonNullable<GeminiRequest['generationConfig']>['thinkingConfig']>

function thinkingLimitExceededBy({ thinkingBudget: budget, thinkingLevel }: ThinkingConfig, model: string) {
  if (budget === undefined && thinkingLevel === undefined) return undefined
  const generation = generationOf(model)
  if (generation < 2.5) return 'thinking_config is not supported by this model.'
  const level = thinkingLevel?.toUpperCase()
  if (level !== undefined && budget !== undefined) return 'You can only set one of thinking budget and thinking level.'
  if (level !== undefined && generation < 3) return 'Thinking level is not supported for this model.'
  if (level === 'MINIMAL' && !model.includes('lite')) {
    return 'Thinking level MINIMAL is not supported for this model. Please retry with other thinking level.'
  }
  if (budget === undefined || budget === -1 || generation >= 3) return undefined
  const allowed = BUDGETS[model.includes('pro') ? 'pro' : model.includes('lite') ? 'lite' : 'flash']
  if (budget === 0) return allowed.off ? undefined : 'Budget 0 is invalid. This model only works in thinking mode.'
  if (budget >= allowed.from && budget <= allowed.to) return undefined
  return `The thinking budget ${budget} is invalid. Please choose a value between ${allowed.from} and ${allowed.to}.`
}

export function generationOf(model: string): number {
  return Number(/^gemini-(\d+(?:\.\d+)?)/.exec(model)?.[1] ?? Number.POSITIVE_INFINITY)
}
