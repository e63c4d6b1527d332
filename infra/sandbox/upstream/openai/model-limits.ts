import type { VendorAnswer } from '../vendor-route.ts'
import type { Thinking } from '../writing/text-call.ts'
import { invalidRequest } from './answers.ts'
import type { ChatRequest } from './chat-request.ts'

/** OpenAI's own models by the start of their name; any other belongs to a self-hosted server with few limits. */
const OWN_MODELS = [
  { name: /^gpt-4\.1/, reasons: false, maximumOutputTokens: 32_768 },
  { name: /^(?:gpt-[56]|o\d)/, reasons: true, maximumOutputTokens: 128_000 },
] as const

const MAXIMUM_STOP_SEQUENCES = 4

/** The model that always reasons. */
const ALWAYS_REASONING = /^gpt-6-astra/

const SAMPLING = ['temperature', 'top_p', 'presence_penalty', 'frequency_penalty'] as const

/**
 * Returns the 400 with which OpenAI's model refuses the request although others accept it.
 *
 * Source: developers.openai.com, guides on reasoning and on GPT-6; the messages are the vendor's, as reported for
 * sampling (johny-b/llmcomp#69), tools (onyx-dot-app/onyx#15008), `max_tokens` (devnullvoid/dms-ai-assistant#12) and
 * stop sequences (continuedev/continue#2461).
 */
export function limitExceededBy(request: ChatRequest): VendorAnswer | undefined {
  const own = OWN_MODELS.find(({ name }) => name.test(request.model))
  const limit = request.max_completion_tokens ?? request.max_tokens ?? 1
  const field = request.max_completion_tokens == null ? 'max_tokens' : 'max_completion_tokens'
  const stops = Array.isArray(request.stop) ? request.stop.length : 0
  if (stops > MAXIMUM_STOP_SEQUENCES) {
    const message = `Invalid 'stop': array too long. Expected an array with maximum length ${MAXIMUM_STOP_SEQUENCES}, but got an array with length ${stops} instead.`
    return invalidRequest(message, 'stop', 'array_above_max_length')
  }
  if (own === undefined) return undefined
  if (limit > own.maximumOutputTokens) {
    const message = `Invalid '${field}': integer above maximum value. Expected a value <= ${own.maximumOutputTokens}, but got ${limit} instead.`
    return invalidRequest(message, field, 'integer_above_max_value')
  }
  if (request.chat_template_kwargs !== undefined) {
    return invalidRequest("Unknown parameter: 'chat_template_kwargs'.", 'chat_template_kwargs', 'unknown_parameter')
  }
  return own.reasons ? reasoningLimit(request) : effortLimit(request)
}

function effortLimit({ reasoning_effort: effort }: ChatRequest): VendorAnswer | undefined {
  return effort == null ? undefined : unsupported('parameter', 'reasoning_effort')
}

function reasoningLimit(request: ChatRequest): VendorAnswer | undefined {
  const { model, tools, reasoning_effort: effort, stop, max_tokens: limit } = request
  if (limit != null) return unsupported('parameter', 'max_tokens')
  const isUnknownEffort = model.startsWith('gpt-6') && effort === 'minimal'
  if (isUnknownEffort || (effort === 'none' && ALWAYS_REASONING.test(model)))
    return unsupported('value', 'reasoning_effort')
  if (effort === 'none') return undefined
  const sampled = SAMPLING.find((name) => request[name] != null && request[name] !== (name.endsWith('penalty') ? 0 : 1))
  if (sampled !== undefined) return unsupported(sampled.endsWith('penalty') ? 'parameter' : 'value', sampled)
  if (stop != null) return unsupported('parameter', 'stop')
  if (tools === undefined) return undefined
  const message = `Function tools with reasoning_effort are not supported for ${model} in /v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to 'none'.`
  return invalidRequest(message, 'reasoning_effort')
}

function unsupported(kind: 'parameter' | 'value', name: string): VendorAnswer {
  return invalidRequest(`Unsupported ${kind}: '${name}' is not supported with this model.`, name, `unsupported_${kind}`)
}

/** Returns how the model thinks: OpenAI's reasoning models at `medium` by default, and others as their name says. */
export function thinkingOf({ model, reasoning_effort: effort }: ChatRequest): Thinking | undefined {
  const reasons = model.startsWith('thinking') || OWN_MODELS.some(({ name, reasons }) => reasons && name.test(model))
  if (!reasons || effort === 'none') return undefined
  if (effort === 'minimal' || effort === 'low') return { effort }
  return { effort: effort == null || effort === 'medium' ? 'medium' : 'high' }
}
