import { z } from 'zod'
import { AppError } from '#shared/errors/app-error.ts'
import { sourceOf } from '#shared/json/json-source.ts'
import { EFFORTS, type Effort, effortOfBudget } from './effort.ts'
import type { TextRequest } from './text-request.ts'
import { isObject } from './tool-arguments.ts'

/*
 * Reads the options of the open text bodies, which `option-rules.ts` has checked. What is not sent adds nothing to the
 * request, so that the digest of a request does not depend on options that it does not have.
 */

type Extras = Readonly<Record<string, unknown>>

const SAMPLING = ['temperature', 'top_p', 'top_k', 'seed', 'presence_penalty', 'frequency_penalty'] as const

type Sampling = Pick<TextRequest, (typeof SAMPLING)[number] | 'stop_sequences'>

/** Reads the sampling options. `stopField` is `stop` in chat completions and `stop_sequences` in messages. */
export function samplingOptions(body: Extras, stopField: 'stop' | 'stop_sequences'): Sampling {
  const sampling: Sampling = {}
  for (const name of SAMPLING) {
    const value = body[name]
    if (typeof value !== 'number' || (name === 'top_k' && value < 1)) continue
    sampling[name] = value
  }
  const given = body[stopField]
  const list = Array.isArray(given) ? (given as string[]) : typeof given === 'string' ? [given] : []
  // An empty one would end nothing.
  const stops = list.filter((stop) => stop !== '')
  return stops.length === 0 ? sampling : { ...sampling, stop_sequences: stops }
}

/** Reads `reasoning_effort` and `verbosity` of chat completions. */
export function chatStyle({ reasoning_effort: effort, verbosity }: Extras): Style {
  return {
    ...(isEffort(effort) ? { reasoning_effort: effort } : {}),
    ...(verbosity === 'low' || verbosity === 'high' ? { verbosity } : {}),
  }
}

type Style = Pick<TextRequest, 'reasoning_effort' | 'verbosity'>

/**
 * Reads `thinking` and `output_config.effort` of messages. A budget stands for an effort, since most models have no budgets;
 * `adaptive` and `between_tools` leave it to the model, like their absence. Throws `invalid_field` for a budget that
 * leaves no output, which the vendor refuses.
 */
export function messageStyle(body: Extras, maxTokens: number): Style {
  const thinking = isObject(body['thinking']) ? body['thinking'] : {}
  if (thinking['type'] === 'disabled') return { reasoning_effort: 'none' }
  const budget = thinking['type'] === 'enabled' ? Number(thinking['budget_tokens']) : undefined
  if (budget !== undefined && budget >= maxTokens)
    throw new AppError('invalid_field', {
      param: 'thinking.budget_tokens',
      message: `thinking.budget_tokens must be less than max_tokens, which is ${maxTokens}; got ${budget}.`,
    })
  const effort = isObject(body['output_config']) ? body['output_config']['effort'] : undefined
  if (isEffort(effort)) return { reasoning_effort: effort }
  return budget === undefined ? {} : { reasoning_effort: effortOfBudget(budget) }
}

function isEffort(value: unknown): value is Effort {
  return EFFORTS.some((effort) => effort === value)
}

/**
 * `include_thought_signatures`, this service's own option for raw output: `true` adds the vendor's opaque thought
 * signatures to the result as `thought_signatures`. Any other value leaves them out and, like every extra, is not an
 * error.
 */
export const rawOutputSchema = z.unknown().optional().meta({
  type: 'boolean',
  default: false,
  description: 'Requests raw output: the result then contains the opaque thought signatures of the model.',
})

/** The number of choices of a chat completion. `null`, which the types of official SDKs allow, is the default. */
export const choicesSchema = z
  .unknown()
  .check(({ value, issues }) => {
    if (value !== undefined && value !== null && value !== 1)
      issues.push({ code: 'invalid_value', values: [1], input: value })
  })
  .optional()
  .meta({ type: 'integer', const: 1, default: 1, description: 'One choice is returned.' })

/**
 * Returns the hard limit on a chat model's output. `max_completion_tokens` is the family's newer name of `max_tokens`;
 * when both are present the lower one applies, so the payer never buys more than either allows.
 */
export function chatOutputCeiling(maxTokens: number | undefined, body: Extras, fallback: number): number {
  const { max_completion_tokens: newer } = body
  if (typeof newer !== 'number') return maxTokens ?? fallback
  return Math.min(newer, maxTokens ?? newer)
}

/**
 * Reads `response_format` of chat completions. Plain text, the default, is left out; so is what is no known format, since
 * the published schema leaves the field unconstrained.
 */
export function chatResponseFormat(format: unknown): Pick<TextRequest, 'response_format'> {
  if (!isObject(format)) return {}
  if (format['type'] === 'json_object') return { response_format: { type: 'json_object' } }
  const named = format['type'] === 'json_schema' ? format['json_schema'] : undefined
  return isObject(named) && sourceOf(named['schema']) ? jsonSchemaFormat(named, 'response_format.json_schema') : {}
}

/** Reads the structured output of messages: `output_config.format`, or its earlier name `output_format`. */
export function messageResponseFormat(body: Extras): Pick<TextRequest, 'response_format'> {
  const configured = isObject(body['output_config']) ? body['output_config']['format'] : undefined
  const [format, param] =
    (configured ?? null) === null
      ? [body['output_format'] ?? null, 'output_format']
      : [configured, 'output_config.format']
  if (format === null) return {}
  if (!isObject(format) || format['type'] !== 'json_schema')
    throw malformed(param, 'must be an object with the type "json_schema"')
  // The vendor's format has a schema only.
  return jsonSchemaFormat({ schema: format['schema'] }, param)
}

function jsonSchemaFormat(named: unknown, param: string): Pick<TextRequest, 'response_format'> {
  const schema = isObject(named) ? sourceOf(named['schema']) : undefined
  if (!isObject(named) || schema === undefined) throw malformed(`${param}.schema`, 'must be a JSON Schema object')
  const name = typeof named['name'] === 'string' ? { name: named['name'] } : {}
  const description = typeof named['description'] === 'string' ? { description: named['description'] } : {}
  const strict = named['strict'] === true ? { strict: true as const } : {}
  return { response_format: { type: 'json_schema', ...name, ...description, schema, ...strict } }
}

function malformed(param: string, rule: string): AppError {
  return new AppError('invalid_field', { param, message: `${param} ${rule}.` })
}
