import { z } from 'zod'
import { EFFORTS } from './effort.ts'

/*
 * Rules of the options that the open text bodies may have beside their published fields. A known option of another type
 * or beyond its documented range is refused, like `max_tokens`, and so is one that asks for an answer which this service
 * does not give. `null` is absent, always. Unknown properties are accepted and ignored.
 */

type Body = Readonly<Record<string, unknown>>

/** Completes "… must be false or left out: "; `allowed` are the values that ask for nothing. */
function nothingBut(allowed: readonly unknown[], rule: string): z.ZodType {
  return z.unknown().check(({ value, issues }) => {
    if (!allowed.includes(value)) issues.push({ code: 'custom', message: rule, input: value })
  })
}

/** The same for objects and lists that may only be empty. */
function nothingIn(rule: string): z.ZodType {
  return z.unknown().check(({ value, issues }) => {
    if (typeof value === 'object' && value !== null && Object.keys(value).length === 0) return
    issues.push({ code: 'custom', message: rule, input: value })
  })
}

const leftOut = (why: string) => `must be left out: ${why}`

/** Bounds come first, so that their message also covers integers beyond the safe ones. */
const outputCeiling = z.number().min(1).max(65_536).int()
const penalty = z.number().min(-2).max(2)

const sampling = {
  temperature: z.number().min(0).max(2),
  top_p: z.number().min(0).max(1),
  // Servers that document it read 0 and -1 as no limit.
  top_k: z.number().min(-1).int(),
  seed: z.int(),
  presence_penalty: penalty,
  frequency_penalty: penalty,
} as const

const stops = z.unknown().check(({ value, issues }) => {
  const isList = Array.isArray(value) && value.every((stop) => typeof stop === 'string')
  if (typeof value === 'string' || isList) return
  issues.push({ code: 'custom', message: 'must be a string or an array of strings', input: value })
})

const EFFORT_WORDS = z.enum(EFFORTS)
const NO_LOG_PROBABILITIES = 'log probabilities are not offered'
const TEXT_ONLY = 'the answer is text'

/** Source: npm package `openai` 7.57, ChatCompletionCreateParamsNonStreaming, read on 28 November 2026. */
export const CHAT_OPTIONS: Readonly<Record<string, z.ZodType>> = {
  ...sampling,
  max_completion_tokens: outputCeiling,
  stop: stops,
  parallel_tool_calls: z.boolean(),
  reasoning_effort: EFFORT_WORDS,
  verbosity: z.enum(['low', 'medium', 'high']),
  logprobs: nothingBut([false], `must be false or left out: ${NO_LOG_PROBABILITIES}`),
  top_logprobs: nothingBut([0], leftOut(NO_LOG_PROBABILITIES)),
  logit_bias: nothingIn(leftOut('token ids belong to a tokenizer, and the one that serves a model is not published')),
  modalities: z.unknown().check(({ value, issues }) => {
    if (Array.isArray(value) && value.every((modality) => modality === 'text')) return
    issues.push({ code: 'custom', message: `must be ["text"] or left out: ${TEXT_ONLY}`, input: value })
  }),
  audio: nothingBut([], leftOut(TEXT_ONLY)),
  prediction: nothingBut([], leftOut('no provider of these models takes predicted output')),
  web_search_options: nothingBut([], leftOut('these models do not search the web')),
  moderation: nothingBut([], leftOut('results of a moderation are not offered')),
  store: nothingBut([false], 'must be false or left out: answers are not stored for later retrieval'),
  service_tier: nothingBut(['auto', 'default'], 'must be "auto", "default" or left out: there is one service tier'),
}

const thinking = z.discriminatedUnion(
  'type',
  [
    z.looseObject({ type: z.literal('enabled'), budget_tokens: z.number().min(1024).int() }),
    z.looseObject({ type: z.literal('adaptive') }),
    z.looseObject({ type: z.literal('between_tools') }),
    z.looseObject({ type: z.literal('disabled') }),
  ],
  {
    error: ({ code }) =>
      code === 'invalid_union' ? 'must be one of "enabled", "adaptive", "between_tools", "disabled"' : undefined,
  },
)

const NO_STATE = 'each request is answered by itself'

/** Source: npm package `@anthropic-ai/sdk` 1.12, MessageCreateParams and its beta, read on 28 November 2026. */
export const MESSAGE_OPTIONS: Readonly<Record<string, z.ZodType>> = {
  ...sampling,
  stop_sequences: stops,
  thinking,
  output_config: z.looseObject({
    effort: z.enum(['low', 'medium', 'high', 'xhigh', 'max']).nullish(),
    task_budget: nothingBut([undefined, null], leftOut('max_tokens is the only budget')).optional(),
  }),
  container: nothingBut([], leftOut('there are no containers')),
  mcp_servers: nothingIn(leftOut('the service calls no MCP server; call it yourself and send its tools in tools')),
  context_management: nothingBut([], leftOut('the conversation is sent as it is')),
  compaction: nothingBut([], leftOut('conversations are not summarized')),
  thread: nothingBut([], leftOut(NO_STATE)),
  fallbacks: nothingIn(leftOut('the model is the one that is named')),
  fallback_credit_token: nothingBut([], leftOut(NO_STATE)),
  billing_policy: nothingBut([], leftOut('the payment of the request pays for it')),
  diagnostics: nothingBut([], leftOut('diagnostics are not offered')),
  inference_geo: nothingBut(['global'], leftOut('where a model runs is not promised')),
  speed: nothingBut(['standard'], 'must be "standard" or left out: there is one speed'),
  service_tier: nothingBut(['auto', 'standard_only'], 'must be "auto", "standard_only" or left out: there is one tier'),
}

/** Creates the check of a body's options. Most are absent, and a failed parse is expensive. */
export function checkOptions(rules: Readonly<Record<string, z.ZodType>>): (payload: z.core.ParsePayload<Body>) => void {
  const names = Object.keys(rules)
  return ({ value, issues }) => {
    for (const name of names) {
      const given = value[name]
      if (given === undefined || given === null) continue
      for (const { path, ...issue } of rules[name]?.safeParse(given).error?.issues ?? [])
        issues.push({ ...issue, path: [name, ...path], input: given } as z.core.$ZodRawIssue)
    }
  }
}
